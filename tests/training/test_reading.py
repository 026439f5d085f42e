"""What gates read: the state of their unit, all its tokens together, and the state where the answer is given."""

import pytest
import torch

from diffmask.errors import SettingError, StorageError
from diffmask.explaining.explain import explain
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.masking.mask import run_copies, run_masked
from diffmask.models.adapting import adapt
from diffmask.models.sites import replace
from diffmask.tasks.text import NextToken, TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.saved import load_fit, save_fit
from diffmask.training.step import look
from diffmask.types import split_prediction
from tiny_text import TEXTS, make_model, make_tokenizer, pad_left

SIDES = ["left", "right"]


def seen_by(kind, side="right", texts=TEXTS, **settings):
    task_class = TextClassification if kind == "bert" else NextToken
    task = pad_left(task_class(make_tokenizer(causal=kind != "bert"), TEXTS, TEXTS, **settings), side == "left")
    model = adapt(make_model(kind))
    return look(model, task, task.collate(texts))


def test_gates_of_words_read_the_mean_of_their_tokens():
    seen = seen_by("bert", unit="word")
    for name in seen.model.sites.names:
        state, read = seen.states[name], seen.reading[name]
        assert read.shape == (*seen.batch.valid.shape, 16)
        torch.testing.assert_close(read[0, 2], state[0, 2:4].mean(0))  # "fun" and "##ny"


def test_without_words_and_questions_gates_read_the_states_themselves():
    seen = seen_by("bert")
    assert all(seen.reading[name] is seen.states[name] for name in seen.model.sites.names)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("side", SIDES)
def test_where_an_answer_is_given_gates_read_the_state_there_too(side, unit):
    seen = seen_by("llama", side, unit=unit)
    mask = seen.batch.inputs["attention_mask"]
    last = [int(row.nonzero()[-1]) for row in mask]
    for name in seen.model.sites.names:
        state, read = seen.states[name], seen.reading[name]
        assert read.shape == (*seen.batch.valid.shape, 32)
        torch.testing.assert_close(read[..., :16], seen.batch.pool(state))
        for row, place in enumerate(last):
            assert torch.equal(read[row, :, 16:], state[row, place].expand(read.shape[1], 16))


@pytest.mark.parametrize("settings", [{}, {"unit": "word"}, {"ask": "first"}])
@pytest.mark.parametrize("side", SIDES)
def test_gates_may_read_the_mean_of_the_units_around_theirs(side, settings):
    seen = seen_by("bert", side, around=2, **settings)
    for name in seen.model.sites.names:
        units, read = seen.batch.pool(seen.states[name]), seen.reading[name]
        assert read.shape[-1] == (48 if "ask" in settings else 32)
        for row, valid in enumerate(seen.batch.valid):
            real, got = units[row, valid], read[row, valid, 16:32]
            means = [real[max(0, i - 2) : i + 3].mean(0) for i in range(len(real))]
            torch.testing.assert_close(got, torch.stack(means))


def test_what_stands_in_the_padding_is_not_around_anything():
    seen = seen_by("bert", around=3)
    batch, state = seen.batch, seen.states[seen.model.sites.names[-1]]
    broken = state.masked_fill(~batch.valid.unsqueeze(-1), torch.nan)
    assert torch.equal(batch.around(broken, 3), batch.around(state, 3))
    assert batch.around(state.bfloat16(), 3).dtype == torch.bfloat16


def test_a_probe_that_reads_around_explains_alone_as_among_others(tmp_path):
    tokenizer = make_tokenizer()
    model, task = adapt(make_model("bert"), tokenizer), TextClassification(tokenizer, TEXTS * 4, TEXTS, around=2)
    fitted = fit(model, task, recipe("text", steps=6, batch_size=4, ablation_steps=2, validation_limit=3))
    together = explain(fitted, TEXTS)
    for text, found in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(explain(fitted, [text])[0].scores, found.scores)
    save_fit(fitted, tmp_path / "probe.safetensors")
    again = load_fit(tmp_path / "probe.safetensors", model, task)
    assert torch.equal(explain(again, TEXTS)[0].scores, together[0].scores)
    with pytest.raises(StorageError, match=r"fitted to a task with around=2, .* than with around=0: make the task"):
        load_fit(tmp_path / "probe.safetensors", model, TextClassification(tokenizer, TEXTS, TEXTS))


def test_what_is_no_number_of_units_around_is_refused():
    with pytest.raises(
        SettingError, match="around must be 0 or a number of units on each side of a gate's own, got -1"
    ):
        TextClassification(make_tokenizer(), TEXTS, TEXTS, around=-1)


@pytest.mark.parametrize("side", SIDES)
def test_asking_at_the_first_token_reads_the_first_real_one(side):
    seen = seen_by("bert", side, ask="first")
    name = seen.model.sites.names[0]
    classifier = make_model("bert").bert.embeddings.word_embeddings.weight[1]
    torch.testing.assert_close(seen.reading[name][:, 0, 16:], classifier.expand(3, 16))


def test_asking_at_the_first_token_leaves_it_a_unit_and_asking_at_the_last_does_not():
    first, last = (seen_by("bert", ask=where).task.units(["a movie"])[0] for where in ("first", "last"))
    assert first == ["[CLS]", "a", "movie", "[SEP]"] and last == ["[CLS]", "a", "movie"]


@pytest.mark.parametrize("side", SIDES)
def test_what_is_read_does_not_depend_on_padding(side):
    among, alone = seen_by("llama", side, unit="word"), seen_by("llama", side, TEXTS[:1], unit="word")
    for name in alone.model.sites.names:
        width = alone.batch.valid.shape[1]
        torch.testing.assert_close(among.reading[name][:1, :width], alone.reading[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("depth", [0, 2])
def test_dropping_a_word_replaces_all_its_tokens_and_nothing_else(side, depth):
    seen = seen_by("bert", side, unit="word", gate_special=False)
    site, baseline = seen.model.sites[depth], torch.randn(16)
    keep = seen.batch.valid.float()
    keep[0, 1] = 0  # "funny"
    start = int(seen.batch.inputs["attention_mask"][0].nonzero()[0])
    by_hand = seen.states[site.name].clone()
    by_hand[0, start + 2 : start + 4] = baseline
    with torch.no_grad(), replace(site, by_hand):
        expected = seen.model(seen.batch).logits
    with torch.no_grad():
        found = run_masked(seen.model, seen.batch, seen.states, site.name, keep, baseline).logits
    torch.testing.assert_close(found, expected)


def test_dropping_every_word_keeps_special_tokens_and_padding():
    seen = seen_by("bert", unit="word", gate_special=False)
    site = seen.model.sites[0]
    special = torch.isin(seen.batch.inputs["input_ids"], torch.tensor([0, 1, 2]))
    by_hand = torch.where(special.unsqueeze(-1), seen.states[site.name], torch.ones(16))
    with torch.no_grad(), replace(site, by_hand):
        expected = seen.model(seen.batch).logits
    with torch.no_grad():
        none = torch.zeros(seen.batch.valid.shape)
        found = run_masked(seen.model, seen.batch, seen.states, site.name, none, torch.ones(16)).logits
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("baseline", [torch.ones(16), None], ids=["baseline", "knockout"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_several_masks_in_one_pass_are_each_mask_in_its_own(unit, baseline):
    seen = seen_by("llama", "left", unit=unit)
    keeps = torch.rand(3, *seen.batch.valid.shape)
    name = seen.model.sites.names[0]
    with torch.no_grad():
        output = run_copies(seen.model, seen.batch.repeat(len(keeps)), seen.states, name, keeps, baseline)
        parts = split_prediction(seen.task.read(output, seen.batch.repeat(3)), 3)
        for keep, part in zip(keeps, parts, strict=True):
            alone = seen.masked_at(name, keep, baseline)
            torch.testing.assert_close(part["next token"].raw, alone["next token"].raw, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_words_are_fitted_and_explained_by_name(kind):
    tokenizer = make_tokenizer()
    task = TextClassification(tokenizer, TEXTS * 4, TEXTS, unit="word")
    settings = {"margin": 1.0, "steps": 6, "batch_size": 4, "ablation_steps": 2, "guard": False}
    fitted = fit(adapt(make_model("bert"), tokenizer), task, recipe(kind=kind, **settings))
    for text, explanation in zip(TEXTS, explain(fitted, TEXTS), strict=True):
        assert explanation.units == ("[CLS]", *text.split(), "[SEP]")
        assert explanation.scores.shape == (4, len(text.split()) + 2)
        assert set(explanation.kept_units) <= set(explanation.units)


def test_a_probe_reads_as_much_as_it_was_told_there_is():
    probe = make_probe(("embed", "a"), (4, 6), ProbeConfig(), (8, 12))
    assert [voter.first.in_features for voter in probe.voters] == [8, 20]
    assert probe.baseline(1).shape == (4,) and probe.read_widths == (8, 12)
