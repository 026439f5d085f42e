"""A fitted ranking puts evidence for the decision first and evidence against it last, for patches and for text."""

from dataclasses import replace

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from diffmask.attribution.method import Question
from diffmask.attribution.random import Random
from diffmask.attribution.ranking import RankScores
from diffmask.errors import DataError, DiffMaskError, SettingError, StorageError
from diffmask.evaluation.compare import compare
from diffmask.explaining.explain import explain
from diffmask.gates.budget import draw_pair
from diffmask.models.adapting import adapt
from diffmask.tasks.text import TextClassification
from diffmask.training.choose import choose
from diffmask.training.comparing import compare_sets
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.saved import load_fit, save_fit
from diffmask.training.step import look
from patch_toy import patch_problem
from tiny_text import SIZES, make_tokenizer
from toys import EVIDENCE, Evidence, evidence_model, evidence_task

QUICK = {"steps": 250, "batch_size": 64, "learning_rate": 1e-2, "hidden": 32, "start": "mean", "validate_every": 250}


def config(**changes):
    return recipe("ranking", **{"measure": "log-odds", **QUICK, **changes})


@pytest.fixture(scope="module")
def tokens():
    return fit(evidence_model(), evidence_task(), config())


@pytest.fixture(scope="module")
def patches():
    model, task = patch_problem(sites=["cut", "blocks.1"])
    return fit(model, task, config())


def ask(fitted, rows, depth):
    baseline = fitted.probe.baseline(depth).detach()
    return Question(fitted.model, fitted.task, fitted.task.collate(rows), depth, baseline)


def ordered(scores, support, valid):
    """Return the share of pairs of units with other support that are ranked as their support says."""
    right = total = 0
    for score, speaks, real in zip(scores, support, valid, strict=True):
        pairs = [(a, b) for a in real.nonzero().flatten() for b in real.nonzero().flatten() if speaks[a] > speaks[b]]
        right += sum(bool(score[a] > score[b]) for a, b in pairs)
        total += len(pairs)
    return right / total


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_tokens_are_ranked_by_what_they_say_for_what_was_decided(tokens, depth):
    question = ask(tokens, tokens.task.validation, depth)
    batch = question.batch
    evidence = EVIDENCE[batch.inputs["tokens"]] * batch.valid
    support = evidence * torch.where(evidence.sum(1, keepdim=True) > 0, 1, -1)
    found = RankScores(tokens.probe)(question)
    assert found.shape == batch.valid.shape and (found[~batch.valid] == 0).all() and (found[batch.valid] > 0).all()
    assert ordered(found, support, batch.valid) > 0.95 > 0.6 > ordered(Random()(question), support, batch.valid)


def test_patches_are_too(patches):
    question = ask(patches, list(patches.task.validation), 0)
    colours = question.batch.inputs["pixel_values"][:, :, ::4, ::4].argmax(1).flatten(1)
    evidence = torch.tensor([1, 0, -1])[colours]
    support = evidence * torch.where(evidence.sum(1, keepdim=True) > 0, 1, -1)
    scores = RankScores(patches.probe)(question)
    assert ordered(scores, support, question.batch.valid) > 0.95
    signed = RankScores(patches.probe).signed(question)
    assert torch.equal(signed.argsort(1), scores.argsort(1)) and (signed < 0).any()


def test_a_divergence_ranks_without_a_sign():
    fitted = fit(evidence_model(), evidence_task(), config(measure="kl", steps=150))
    question = ask(fitted, fitted.task.validation, 1)
    evidence = EVIDENCE[question.batch.inputs["tokens"]] * question.batch.valid
    # Where evidence speaks both ways, keeping one side alone changes the prediction: no unit is simply needed.
    agreed = (evidence >= 0).all(1) | (evidence <= 0).all(1)
    scores, valid = RankScores(fitted.probe)(question)[agreed], question.batch.valid[agreed]
    assert ordered(scores, (evidence[agreed] != 0).float(), valid) > 0.9


def test_scores_learn_by_how_much_better_one_of_two_sets_does(tokens):
    batch, how = tokens.task.collate(range(8)), tokens.config.comparison
    with torch.no_grad(), tokens.model.frozen():
        seen = look(tokens.model, tokens.task, batch)
        found = compare_sets(seen, tokens.probe, how, [1, 2], torch.Generator().manual_seed(0))
        draw, errors = torch.Generator().manual_seed(0), torch.zeros(2, 8)
        for _ in range(how.pairs):
            sets = draw_pair(batch.valid, draw)
            for row, depth in enumerate([1, 2]):
                one, other = (seen.masked_by(tokens.probe, depth, keep)["output"].raw for keep in sets)
                sign = torch.where(seen.original["output"].raw > 0, 1, -1)
                known = (sign * one).clamp(-5, 5) - (sign * other).clamp(-5, 5)
                scores = tokens.probe.rank(seen.reading, depth)
                guessed = ((sets[0] - sets[1]) * scores).sum(1) / batch.valid.sum(1).sqrt()
                errors[row] += (known - guessed) ** 2 / how.pairs
    torch.testing.assert_close(found, errors)


def test_the_same_seed_gives_the_same_ranking_and_the_model_is_left_as_it_was():
    model, task = evidence_model(), evidence_task(150)
    model.model.train()
    one, other = (fit(model, task, config(steps=5)) for _ in range(2))
    assert all(
        torch.equal(a, b)
        for a, b in zip(one.probe.state_dict().values(), other.probe.state_dict().values(), strict=True)
    )
    assert model.model.training and all(p.grad is None and p.requires_grad for p in model.model.parameters())
    assert not any(m._forward_hooks for m in model.model.modules())


def test_hidden_states_are_ranked_too_and_judged_beside_others():
    model, task = evidence_model(), evidence_task()
    fitted = fit(model, task, config(kind="hidden", steps=5))
    table = compare(fitted, task, {"ranking": RankScores(fitted.probe), "random": Random()}, ["comprehensiveness"])
    assert set(table.methods) == {"ranking", "random"}
    named = compare(fitted, task, ["ranking"], ["comprehensiveness"])
    assert named.interval("ranking", "comprehensiveness") == table.interval("ranking", "comprehensiveness")
    with pytest.raises(SettingError, match="method 'ranking' needs a fitted one"):
        compare(model, task, ["ranking"], ["comprehensiveness"])


def test_text_is_ranked_at_every_layer_of_a_transformer():
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**{**SIZES, "initializer_range": 0.4})).eval()
    texts = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny", "a a fast movie"] * 4
    task = TextClassification(make_tokenizer(), texts, texts[:6])
    fitted = fit(adapt(model), task, config(steps=40, batch_size=8))
    assert len(fitted.scores) == 4 and fitted.feasible
    scores = RankScores(fitted.probe)(ask(fitted, texts[:4], 3))
    assert scores.isfinite().all()


def test_a_saved_ranking_ranks_as_before_and_knows_its_model(tokens, tmp_path):
    path = tmp_path / "ranking.safetensors"
    save_fit(tokens, path)
    loaded = load_fit(path, evidence_model(), evidence_task())
    question = ask(tokens, range(5), 1)
    assert torch.equal(RankScores(loaded.probe)(question), RankScores(tokens.probe)(question))
    assert (loaded.config, loaded.scores) == (tokens.config, tokens.scores)
    other = Evidence()
    torch.nn.init.constant_(other.answer.weight, 0.5)
    with pytest.raises(StorageError, match="was fitted on another model"):
        load_fit(path, evidence_model(other), evidence_task())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pairs": 0}, "pairs must be positive, got 0"),
        ({"most": -1.0}, "most must be positive, got -1.0"),
        ({"measure": "taste"}, "no measure named 'taste'. Known: log-odds, probability, kl"),
        ({"guard": True}, "rankers learn an order"),
        ({"votes": "coupled"}, "a ranker scores each depth alone, got votes = coupled"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, message):
    with pytest.raises(DiffMaskError, match=message):
        config(**wrong)


@pytest.fixture(scope="module")
def needed():
    return fit(evidence_model(), evidence_task(), config(measure="kl"))


def test_one_threshold_makes_sets_of_an_order_that_hold_the_margin(needed):
    assert needed.feasible and all(0 < score.kept < 1 for score in needed.scores)
    assert all(each.verification.divergence < 1 for each in explain(needed, [0, 1]))


def test_an_order_can_be_cut_at_another_margin(needed):
    shift = needed.probe.shift.clone()
    loose, tight = choose(needed, 1.0), choose(needed, 0.01)
    assert all(a.kept <= b.kept for a, b in zip(loose.scores, tight.scores, strict=True))
    assert loose.feasible and tight.feasible and loose.config.objective.margin == 1.0
    assert torch.equal(needed.probe.shift, shift)  # what was given is as it was


def test_without_validation_examples_nothing_is_cut(needed):
    task = evidence_task()
    task.validation = []
    with pytest.raises(DataError, match="the task of this fit has none: give it one that has"):
        choose(replace(needed, task=task), 0.5)
