"""A fitted ranking puts evidence for the decision first and evidence against it last, for patches and for text."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from diffmask.attribution.budget import BudgetScores
from diffmask.attribution.method import Question
from diffmask.attribution.random import Random
from diffmask.errors import SettingError, StorageError
from diffmask.evaluation.compare import compare
from diffmask.explaining.explain import explain
from diffmask.gates.budget import keep_highest
from diffmask.models.adapter import adapt
from diffmask.settings import change
from diffmask.tasks.text import TextClassification
from diffmask.training.budget import BudgetConfig, fit_budget
from diffmask.training.budget_score import SHARES, judge, scores_at
from diffmask.training.choose import choose
from diffmask.training.fit import fit
from diffmask.training.saved import load_fit, save_fit
from diffmask.training.saved_budget import load_budget, save_budget
from diffmask.training.step import look
from patch_toy import patch_problem
from tiny_text import SIZES, make_tokenizer
from toys import EVIDENCE, Evidence, evidence_model, evidence_task, small_recipe

QUICK = {
    "steps": 250,
    "batch_size": 64,
    "learning_rate": 1e-2,
    "hidden": 32,
    "ablation_steps": 40,
    "ablation_rate": 0.1,
}


def config(**changes):
    return change(BudgetConfig(), {**QUICK, **changes})


@pytest.fixture(scope="module")
def tokens():
    return fit_budget(evidence_model(), evidence_task(), config())


@pytest.fixture(scope="module")
def patches():
    model, task = patch_problem(sites=["cut", "blocks.1"])
    return fit_budget(model, task, config())


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
    found = BudgetScores(tokens.probe)(question)
    assert found.shape == batch.valid.shape and (found[~batch.valid] == 0).all() and (found[batch.valid] > 0).all()
    assert ordered(found, support, batch.valid) > 0.95 > 0.6 > ordered(Random()(question), support, batch.valid)


def test_patches_are_too(patches):
    question = ask(patches, list(patches.task.validation), 0)
    colours = question.batch.inputs["pixel_values"][:, :, ::4, ::4].argmax(1).flatten(1)
    evidence = torch.tensor([1, 0, -1])[colours]
    support = evidence * torch.where(evidence.sum(1, keepdim=True) > 0, 1, -1)
    scores = BudgetScores(patches.probe)(question)
    assert ordered(scores, support, question.batch.valid) > 0.95
    signed = BudgetScores(patches.probe).signed(question)
    assert torch.equal(signed.argsort(1), scores.argsort(1)) and (signed < 0).any()


def test_a_divergence_ranks_without_a_sign():
    fitted = fit_budget(evidence_model(), evidence_task(), config(measure="kl", steps=150))
    question = ask(fitted, fitted.task.validation, 1)
    evidence = EVIDENCE[question.batch.inputs["tokens"]] * question.batch.valid
    # Where evidence speaks both ways, keeping one side alone changes the prediction: no unit is simply needed.
    agreed = (evidence >= 0).all(1) | (evidence <= 0).all(1)
    scores, valid = BudgetScores(fitted.probe)(question)[agreed], question.batch.valid[agreed]
    assert ordered(scores, (evidence[agreed] != 0).float(), valid) > 0.9


def test_keeping_the_first_units_leaves_more_than_removing_them(tokens):
    assert all(score.kept > score.removed for score in tokens.scores) and len(tokens.scores) == 3


def test_a_ranking_is_judged_by_keeping_and_by_removing_its_first_units(tokens):
    batch = tokens.task.collate(range(8))
    with torch.no_grad(), tokens.model.frozen():
        seen = look(tokens.model, tokens.task, batch)
        found, scores = judge(tokens.probe, seen, [1], "probability", 5.0), scores_at(tokens.probe, seen, [1])[0]
        decided, left = seen.original["output"].raw > 0, torch.zeros(2, 8)
        for share in SHARES:
            first = keep_highest(scores, (share * batch.valid.sum(1)).round().long(), batch.valid)
            for way, mask in enumerate((first, 1 - first)):
                masked = seen.masked_by(tokens.probe, 1, mask)["output"].raw
                left[way] += torch.where(decided, masked, -masked).sigmoid() / len(SHARES)
    torch.testing.assert_close(found[:, 0], left)


def test_the_same_seed_gives_the_same_ranking_and_the_model_is_left_as_it_was():
    model, task = evidence_model(), evidence_task(150)
    model.model.train()
    one, other = (fit_budget(model, task, config(steps=5)) for _ in range(2))
    assert all(
        torch.equal(a, b)
        for a, b in zip(one.probe.state_dict().values(), other.probe.state_dict().values(), strict=True)
    )
    assert model.model.training and all(p.grad is None and p.requires_grad for p in model.model.parameters())
    assert not any(m._forward_hooks for m in model.model.modules())


def test_it_takes_over_the_baselines_of_a_probe_and_judges_beside_it():
    model, task = evidence_model(), evidence_task()
    probe = fit(model, task, small_recipe(steps=5, guard=False))
    fitted = fit_budget(model, task, config(kind="hidden", steps=5), beside=probe.probe)
    for depth in range(3):
        assert torch.equal(fitted.probe.baseline(depth), probe.probe.baseline(depth))
    table = compare(probe, task, {"budget": BudgetScores(fitted.probe), "random": Random()}, ["comprehensiveness"])
    assert set(table.methods) == {"budget", "random"}
    with pytest.raises(SettingError, match="a budget fit beside a probe masks where and as it does"):
        fit_budget(model, task, config(steps=1), beside=probe.probe)
    with pytest.raises(SettingError, match="method 'budget' needs a fitted ranking"):
        compare(probe, task, ["budget"], ["comprehensiveness"])


def test_text_is_ranked_at_every_layer_of_a_transformer():
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**{**SIZES, "initializer_range": 0.4})).eval()
    texts = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny", "a a fast movie"] * 4
    task = TextClassification(make_tokenizer(), texts, texts[:6])
    fitted = fit_budget(adapt(model), task, config(steps=40, batch_size=8))
    assert len(fitted.scores) == 4 and all(score.kept > score.removed for score in fitted.scores)
    scores = BudgetScores(fitted.probe)(ask(fitted, texts[:4], 3))
    assert scores.isfinite().all()


def test_a_saved_ranking_ranks_as_before_and_knows_its_model(tokens, tmp_path):
    path = tmp_path / "ranking.safetensors"
    save_budget(tokens, path)
    loaded = load_budget(path, evidence_model(), evidence_task())
    question = ask(tokens, range(5), 1)
    assert torch.equal(BudgetScores(loaded.probe)(question), BudgetScores(tokens.probe)(question))
    assert (loaded.config, loaded.scores) == (tokens.config, tokens.scores)
    other = Evidence()
    torch.nn.init.constant_(other.answer.weight, 0.5)
    with pytest.raises(StorageError, match="was fitted on another model"):
        load_budget(path, evidence_model(other), evidence_task())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps of a budget fit must be positive and finite, got 0"),
        ({"learning_rate": float("inf")}, "learning_rate of a budget fit must be positive and finite, got inf"),
        ({"pairs": 0}, "pairs of a budget fit must be positive and finite, got 0"),
        ({"depths_per_step": -1}, "depths_per_step of a budget fit must be 0 or more, got -1"),
        ({"weight_decay": -1}, "weight_decay of a budget fit must be 0 or more, got -1"),
        ({"voter": "standard"}, "a budget fit ranks at each depth alone"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        config(**wrong)


def test_a_threshold_makes_a_keep_set_of_a_ranking_that_holds_the_margin(tokens, tmp_path):
    found = choose(tokens, margin=0.1)
    assert found.feasible and all(0 < score.kept < 1 for score in found.scores)
    assert (tokens.probe.shift == 0).all()  # the ranking is as it was
    (loose,) = {choose(tokens, margin=10.0).scores[0].kept}
    assert loose <= found.scores[0].kept
    assert all(each.verification.divergence < 1 for each in explain(found, [0, 1]))
    save_fit(found, tmp_path / "chosen.safetensors")
    again = load_fit(tmp_path / "chosen.safetensors", evidence_model(), evidence_task())
    assert again.scores == found.scores and again.config == found.config


def test_a_fit_does_not_train_rankers():
    with pytest.raises(SettingError, match="use fit_budget, then choose"):
        fit(evidence_model(), evidence_task(), small_recipe(votes="separate", voter="ranker"))
