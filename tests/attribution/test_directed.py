"""Rivals that may say what speaks against a prediction."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from diffmask.attribution.directed import Directed
from diffmask.attribution.gradient_input import GradientInput
from diffmask.attribution.integrated_gradients import IntegratedGradients
from diffmask.attribution.kernel_shap import KernelShap
from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.attribution.lime import Lime
from diffmask.attribution.method import Method, Question
from diffmask.attribution.random import Random
from diffmask.errors import SettingError
from diffmask.tasks.tensors import TensorTask
from diffmask.types import Batch
from toys import evidence_model, evidence_task

RIVALS = [GradientInput(), IntegratedGradients(steps=8), LeaveOneOut(), KernelShap(samples=60), Lime(samples=60)]


@pytest.mark.parametrize("method", RIVALS, ids=lambda method: type(method).__name__)
def test_what_speaks_against_the_decision_comes_last_and_padding_gets_nothing(method):
    tokens = torch.tensor([[2, 0, 3, 2, 0], [2, 0, 3, 2, 0]])  # for, nothing, against, for; then padding
    valid = torch.arange(5).expand(2, -1) < 4
    task = TensorTask({"tokens": tokens, "valid": valid}, valid, "bernoulli", 1)
    question = Question(evidence_model(), task, task.collate([0]), 0, torch.zeros(4))
    scores = Directed(method)(question)[0]
    assert scores[0] > scores[1] > scores[2] and scores[3] > scores[1]
    assert scores[1] == pytest.approx(0.5, abs=0.05) and scores[4] == 0
    plain = method(question)[0]
    assert plain[2] > plain[1]  # without its sign, what speaks against the decision matters as much


def test_a_method_that_knows_no_sign_is_refused():
    with pytest.raises(SettingError, match="Random does not say what speaks against a prediction"):
        Directed(Random())


@dataclass(frozen=True)
class Given(Method):
    scores: Tensor

    def __call__(self, question):
        return self.scores.abs()

    def signed(self, question):
        return self.scores


def test_scores_of_a_very_sure_prediction_stay_apart():
    scores = torch.tensor([[-4e-9, -1e-9, 0.0, 1e-9, 4e-9], [0.0, 0.0, 0.0, 0.0, 0.0]])
    batch = Batch({"tokens": torch.zeros_like(scores).long()}, torch.ones_like(scores).bool())
    found = Directed(Given(scores))(Question(evidence_model(), evidence_task(), batch, 0, None))
    assert (found[0].diff() > 0).all() and found[0, 2] == 0.5 and (found[1] == 0.5).all()
