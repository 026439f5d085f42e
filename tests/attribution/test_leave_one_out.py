from dataclasses import replace

import pytest
import torch

from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.attribution.method import Question
from diffmask.errors import SettingError
from diffmask.objective.divergence import divergence
from diffmask.training.step import look
from toys import EVIDENCE, evidence_model, evidence_task


def slow(question, measure="kl"):
    """Run the model once for each unit of each example."""
    scores = torch.zeros(question.batch.valid.shape)
    with torch.no_grad(), question.model.frozen():
        seen = look(question.model, question.task, question.batch)
        for row, unit in question.batch.valid.nonzero().tolist():
            keep = question.batch.valid.clone()
            keep[row, unit] = False
            masked = seen.masked_at(question.site_name, keep, question.baseline)
            scores[row, unit] = divergence(seen.original, masked, measure)[row]
    return scores


def test_on_evidence_it_is_the_divergence_without_the_units_evidence():
    task = evidence_task()
    batch = task.collate(range(30))
    evidence = EVIDENCE[batch.inputs["tokens"]] * batch.valid
    total = evidence.sum(1, keepdim=True).expand_as(evidence)
    before, after = (torch.distributions.Bernoulli(logits=logits) for logits in (total, total - evidence))
    expected = torch.distributions.kl_divergence(before, after)
    for depth in range(3):
        scores = LeaveOneOut()(Question(evidence_model(), task, batch, depth, torch.tensor([0.5, 0.5, 0.0, 0.0])))
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-6)


def test_on_a_linear_model_it_is_the_squared_change_of_the_value(linear):
    model = linear.model.model
    change = ((model.embedding(linear.batch.inputs["ids"]) - linear.baseline) * model.weight).sum(-1)
    expected = (change.square() * linear.batch.valid).detach()
    torch.testing.assert_close(LeaveOneOut()(linear), expected, rtol=1e-4, atol=1e-5)


def test_with_its_sign_it_is_what_the_decision_loses_in_log_probability():
    task = evidence_task()
    batch = task.collate(range(30))
    evidence = EVIDENCE[batch.inputs["tokens"]] * batch.valid
    total = evidence.sum(1, keepdim=True).expand_as(evidence)
    way = torch.where(total > 0, 1, -1)  # a sum of nothing is decided against
    expected = torch.nn.functional.logsigmoid(way * total) - torch.nn.functional.logsigmoid(way * (total - evidence))
    found = LeaveOneOut().signed(Question(evidence_model(), task, batch, 0, torch.tensor([0.5, 0.5, 0.0, 0.0])))
    torch.testing.assert_close(found, expected * batch.valid, rtol=1e-4, atol=1e-6)
    assert (found < 0).any() and (found > 0).any()


@pytest.mark.parametrize("measure", ["kl", "js"])
@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("kind", ["bert", "llama", "lstm"])
def test_it_agrees_with_a_slow_loop(ask_text, kind, unit, measure):
    for depth in range(2 if kind == "lstm" else 4):
        question = ask_text(depth=depth, kind=kind, unit=unit)
        found = LeaveOneOut(measure, batch_size=7)(question)
        torch.testing.assert_close(found, slow(question, measure), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("batch_size", "passes"), [(1, 6), (8, 3), (1000, 1)])
def test_units_share_passes_and_the_scores_do_not_tell(batch_size, passes):
    model, task = evidence_model(), evidence_task()
    rows = [row for row in range(40) if task.valid[row].all()][:4]
    question = Question(model, task, task.collate(rows), 1, torch.zeros(4))
    expected = LeaveOneOut()(question)
    before = model.model.passes
    torch.testing.assert_close(LeaveOneOut(batch_size=batch_size)(question), expected)
    assert model.model.passes - before == 1 + passes


def test_columns_that_are_padding_for_everyone_cost_nothing():
    model, task = evidence_model(), evidence_task()
    rows = [row for row in range(40) if task.valid[row].sum() <= 2][:3]
    longest = int(task.valid[rows].sum(1).max())
    LeaveOneOut(batch_size=1)(Question(model, task, task.collate(rows), 1, torch.zeros(4)))
    assert model.model.passes == 1 + longest


def test_rounding_never_makes_a_score_negative(linear, monkeypatch):
    def just_below(original, masked, measure="kl"):
        return torch.full((len(linear.batch),), -1e-8)

    monkeypatch.setattr("diffmask.attribution.leave_one_out.divergence", just_below)
    assert torch.equal(LeaveOneOut()(linear), torch.zeros(linear.batch.valid.shape))


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(SettingError, match="batch_size of leave-one-out must be at least 1, got 0"):
        LeaveOneOut(batch_size=0)


def test_without_a_baseline_a_unit_is_knocked_out_of_attention(ask_text):
    question = replace(ask_text(gate_special=False), baseline=None)
    torch.testing.assert_close(LeaveOneOut(batch_size=7)(question), slow(question), rtol=1e-3, atol=1e-5)
