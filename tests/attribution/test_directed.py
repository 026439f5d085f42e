"""Rivals that may say what speaks against a prediction."""

import pytest
import torch

from diffmask.attribution.directed import Directed
from diffmask.attribution.gradient_input import GradientInput
from diffmask.attribution.integrated_gradients import IntegratedGradients
from diffmask.attribution.kernel_shap import KernelShap
from diffmask.attribution.lime import Lime
from diffmask.attribution.method import Question
from diffmask.attribution.random import Random
from diffmask.errors import SettingError
from diffmask.tasks.tensors import TensorTask
from toys import evidence_model

RIVALS = [GradientInput(), IntegratedGradients(steps=8), KernelShap(samples=60), Lime(samples=60)]


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
