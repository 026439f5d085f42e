"""RISE against its definition, mask by mask, and against the exact mean over all masks."""

from itertools import product

import pytest
import torch

from diffmask.attribution.method import Question
from diffmask.attribution.rise import Rise, conditional_mean
from diffmask.errors import SettingError
from diffmask.training.draws import unit_noise
from toys import EVIDENCE, evidence_model, evidence_task


def ask(rows=range(6), task=None):
    task = task or evidence_task()
    return Question(evidence_model(), task, task.collate(rows), 1, torch.tensor([0.5, 0.5, 0.0, 0.0]))


def evidence(question, row):
    return (EVIDENCE[question.batch.inputs["tokens"][row]] * question.batch.valid[row]).double()


def probability(logits, decided):
    return torch.sigmoid(logits if decided else -logits)


def test_it_is_the_mean_over_the_masks_that_keep_a_unit():
    question = ask()
    found = Rise(samples=40, keep=0.3, batch_size=7, seed=5)(question)
    masks = unit_noise(question.batch, 40, 5) < 0.3
    for row in range(6):
        weights = evidence(question, row)
        for unit in range(int(question.batch.valid[row].sum())):
            values = [probability((m * weights).sum(), weights.sum() > 0) for m in masks[:, row] if m[unit]]
            expected = sum(values) / max(1, len(values))
            assert float(found[row, unit]) == pytest.approx(float(expected), abs=1e-5)


def test_with_many_masks_it_nears_the_exact_mean():
    question = ask(rows=range(4))
    found = Rise(samples=4000)(question)
    for row in range(4):
        weights, count = evidence(question, row), int(question.batch.valid[row].sum())
        for unit in range(count):
            masks = [torch.tensor([*mask, *[0] * (6 - count)]) for mask in product([0, 1], repeat=count) if mask[unit]]
            exact = sum(probability((m * weights).sum(), weights.sum() > 0) for m in masks) / len(masks)
            assert float(found[row, unit]) == pytest.approx(float(exact), abs=0.03)


def test_the_size_of_a_pass_does_not_matter():
    torch.testing.assert_close(Rise(50, batch_size=1)(ask()), Rise(50, batch_size=999)(ask()))


def test_what_may_be_negative_is_counted_from_the_least(linear):
    scores = Rise(64)(linear)
    assert (scores >= 0).all() and (scores.amax(1)[[0, 1, 3, 4, 5]] > 0).all()
    values, keeps = torch.tensor([[-1.0], [3.0]]), torch.tensor([[[1.0, 1.0]], [[0.0, 1.0]]])
    assert torch.equal(conditional_mean(values, keeps), torch.tensor([[0.0, 2.0]]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"samples": 0}, "samples of rise must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size of rise must be at least 1, got 0"),
        ({"keep": 1.0}, "keep of rise must lie between 0 and 1, got 1.0"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        Rise(**wrong)
