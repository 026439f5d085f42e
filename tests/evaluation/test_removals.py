"""Every way to remove a unit sits one exam, and is compared with doing it by hand."""

from dataclasses import replace

import pytest
import torch

from diffmask.attribution.method import Question
from diffmask.errors import DataError, SettingError, UnknownNameError
from diffmask.evaluation import REMOVALS
from diffmask.evaluation.figure import predict
from diffmask.evaluation.remove_to_noise import drawn_rows
from diffmask.masking.knockout import run_knocked_out
from diffmask.models.adapting import adapt
from diffmask.models.sites import capture
from diffmask.models.sites import replace as put
from diffmask.tasks.text import TextClassification
from tiny_text import TEXTS, make_model, make_tokenizer
from toys import evidence_model, evidence_task

STATES = ["baseline", "mean", "zero", "noise"]
TOKENS = ["mask-token", "deletion"]
BASELINE = torch.linspace(-1, 1, 16)


def ask(texts=TEXTS, kind="bert", depth=0, baseline=BASELINE, side="right", **settings):
    tokenizer = make_tokenizer(side)
    task = TextClassification(tokenizer, TEXTS, TEXTS, **{"unit": "word", **settings})
    return Question(adapt(make_model(kind)), task, task.collate(texts), depth, baseline)


def some_keeps(question, copies=3):
    shape = (copies, *question.batch.valid.shape)
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(0)).float()


def logits(prediction):
    return prediction["label"].raw


@pytest.mark.parametrize("name", REMOVALS.names)
def test_keeping_everything_is_the_original_prediction(name):
    question = ask()
    (found,) = REMOVALS.get(name)()(question, torch.ones(1, *question.batch.valid.shape))
    torch.testing.assert_close(logits(found), logits(predict(question)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", REMOVALS.names)
def test_every_mask_gets_its_own_prediction_however_many_rows_a_pass_takes(name):
    question = ask()
    keeps = some_keeps(question, 5)
    wide, narrow = (REMOVALS.get(name)(rows=rows)(question, keeps) for rows in (256, 4))
    assert len(wide) == len(narrow) == 5
    for number, keep in enumerate(keeps):
        (alone,) = REMOVALS.get(name)()(question, keep.unsqueeze(0))
        torch.testing.assert_close(logits(wide[number]), logits(alone), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(logits(narrow[number]), logits(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("name", REMOVALS.names)
def test_a_prediction_does_not_depend_on_batch_mates_nor_on_padding(name, depth):
    among = ask(depth=depth)
    keeps = some_keeps(among)
    found = REMOVALS.get(name)()(among, keeps)
    for row, text in enumerate(TEXTS):
        alone = ask([text], depth=depth)
        width = alone.batch.valid.shape[1]
        for number, one in enumerate(REMOVALS.get(name)()(alone, keeps[:, row : row + 1, :width])):
            torch.testing.assert_close(logits(found[number])[row], logits(one)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", REMOVALS.names)
def test_a_pass_takes_no_more_rows_than_it_may(name):
    question, most = ask(), []
    keeps = some_keeps(question, 6)
    question.model.model.register_forward_pre_hook(lambda m, a, kw: most.append(len(kw["input_ids"])), with_kwargs=True)
    removal = REMOVALS.get(name)(rows=6)
    removal(question, keeps)
    assert max(most) == 6 and len([rows for rows in most if rows == 6]) == 3
    with pytest.raises(SettingError, match=f"rows of removal '{name}' must be at least 1, got 0"):
        REMOVALS.get(name)(rows=0)


@pytest.mark.parametrize("name", REMOVALS.names)
def test_a_removal_leaves_the_model_as_it_was(name):
    question = ask()
    model = question.model.model.train()
    before = question.model.fingerprint
    for prediction in REMOVALS.get(name)()(question, some_keeps(question)):
        assert not logits(prediction).requires_grad
    assert question.model.fingerprint == before and all(module.training for module in model.modules())
    assert all(p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.modules())


@pytest.mark.parametrize("name", REMOVALS.names)
def test_a_removal_says_what_stands_in(name):
    question, removal = ask(), REMOVALS.get(name)()
    assert removal.name == name and removal.describe(question)


def by_hand(question, keep, stand_in):
    """Replace states position by position, in a loop."""
    batch, site = question.batch, question.model.sites[question.depth]
    with torch.no_grad(), capture([site]) as states:
        question.model(batch)
    state = states[site.name].clone()
    for row in range(len(batch)):
        order = 0
        for position in range(state.shape[1]):
            unit = int(batch.place[row, position])
            if unit >= 0 and keep[row, unit] == 0:
                state[row, position] = stand_in(order)
            order += int(batch.inputs["attention_mask"][row, position])
    with torch.no_grad(), put(site, state):
        return question.model(batch).logits


def mean_by_hand(question):
    """Average the states of all positions that belong to a unit, text by text."""
    site, rows = question.model.sites[question.depth], []
    for text in question.task.train:
        batch = question.task.collate([text])
        with torch.no_grad(), capture([site]) as states:
            question.model(batch)
        rows += [states[site.name][0, p] for p in range(batch.place.shape[1]) if batch.place[0, p] >= 0]
    rows = torch.stack(rows)
    return rows.mean(0), rows.std(0, correction=0)


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("name", STATES)
def test_a_state_is_replaced_where_a_loop_replaces_it(name, depth):
    question = ask(depth=depth, gate_special=False)
    mean, std = mean_by_hand(question)
    noise = drawn_rows(12, 16, 0)
    stand_in = {
        "baseline": lambda order: BASELINE,
        "zero": lambda order: torch.zeros(16),
        "mean": lambda order: mean,
        "noise": lambda order: mean + std * noise[order],
    }[name]
    keep = some_keeps(question)[0]
    (found,) = REMOVALS.get(name)()(question, keep.unsqueeze(0))
    torch.testing.assert_close(logits(found), by_hand(question, keep, stand_in), rtol=1e-4, atol=1e-4)


def test_without_a_baseline_units_are_knocked_out():
    question = ask(baseline=None)
    keep = some_keeps(question)[0]
    removal = REMOVALS.get("baseline")()
    (found,) = removal(question, keep.unsqueeze(0))
    with torch.no_grad():
        expected = run_knocked_out(question.model, question.batch, keep).logits
    torch.testing.assert_close(logits(found), expected, rtol=1e-4, atol=1e-5)
    assert removal.describe(question) == "knockout" and "baseline at" in removal.describe(ask())


@pytest.mark.parametrize("name", ["mean", "noise"])
def test_the_usual_state_is_looked_for_once_and_again_when_the_weights_change(name):
    task = evidence_task()
    question = Question(evidence_model(), task, task.collate(range(6)), 1, None)
    removal, keeps = REMOVALS.get(name)(examples=64), torch.zeros(1, *question.batch.valid.shape)
    (first,) = removal(question, keeps)
    passes = question.model.model.passes
    removal(question, keeps)
    assert question.model.model.passes == passes + 2  # the look, and the removal
    with torch.no_grad():
        question.model.model.embedding.weight.mul_(2)
    (later,) = removal(question, keeps)
    assert question.model.model.passes == passes + 6  # two batches of 32 more
    assert not torch.equal(first["output"].raw, later["output"].raw)


def test_rows_of_noise_stay_when_more_are_drawn_and_have_the_right_moments():
    short, long = (drawn_rows(count, 5, seed=1) for count in (3, 4000))
    assert torch.equal(short, long[:3]) and not torch.equal(short, drawn_rows(3, 5, seed=2))
    assert abs(float(long.mean())) < 0.02 and abs(float(long.std()) - 1) < 0.02


@pytest.mark.parametrize("names", [{"mask_token": "what"}, {}, {"unk_token": None}], ids=["mask", "unknown", "padding"])
def test_the_mask_token_is_the_best_the_tokenizer_has_and_stands_where_the_unit_stood(names):
    tokenizer = make_tokenizer(**names)
    question = ask()
    question = replace(question, task=TextClassification(tokenizer, TEXTS, TEXTS, unit="word"))
    expected_id = {"mask_token": 12, "unk_token": 0}.get(next(iter(names), ""), 3)
    keep = some_keeps(question)[0]
    inputs = {name: tensor.clone() for name, tensor in question.batch.inputs.items()}
    for row, places in enumerate(question.batch.place.tolist()):
        for position, unit in enumerate(places):
            if unit >= 0 and keep[row, unit] == 0:
                inputs["input_ids"][row, position] = expected_id
    removal = REMOVALS.get("mask-token")()
    (found,) = removal(question, keep.unsqueeze(0))
    with torch.no_grad():
        torch.testing.assert_close(logits(found), question.model.model(**inputs).logits, rtol=1e-4, atol=1e-5)
    assert removal.describe(question) == f"token {tokenizer.convert_ids_to_tokens(expected_id)}"


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_can_only_be_removed_from_texts(name):
    task = evidence_task()
    question = Question(evidence_model(), task, task.collate(range(3)), 0, None)
    with pytest.raises(DataError, match=rf"removal '{name}' .* TensorTask has no tokenizer .* use removal 'baseline'"):
        REMOVALS.get(name)()(question, torch.ones(1, *question.batch.valid.shape))


@pytest.mark.parametrize("name", TOKENS)
def test_a_part_of_a_token_cannot_be_removed(name):
    question = ask()
    with pytest.raises(DataError, match="holds shares of units"):
        REMOVALS.get(name)()(question, torch.full((1, *question.batch.valid.shape), 0.5))


def test_a_tokenizer_without_any_such_token_is_refused():
    question = ask()
    question.task.tokenizer = type("Bare", (), {"pad_token_id": None})()
    with pytest.raises(DataError, match="Bare has no mask, unknown or padding token"):
        REMOVALS.get("mask-token")()(question, some_keeps(question))


def test_the_mean_of_nothing_is_refused():
    question = ask()
    question.task.train = []
    with pytest.raises(DataError, match="over the task's training examples, and it has none"):
        REMOVALS.get("mean")()(question, some_keeps(question))
    with pytest.raises(SettingError, match="examples of removal 'mean' must be at least 1"):
        REMOVALS.get("mean")(examples=0)


def test_an_unknown_removal_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="no removal named 'deletoin'; did you mean 'deletion'"):
        REMOVALS.get("deletoin")
