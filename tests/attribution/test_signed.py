"""Scores with a sign, put between 0 and 1."""

from dataclasses import dataclass

import torch
from torch import Tensor

from diffmask.attribution.method import Question, Signed
from diffmask.types import Batch
from toys import evidence_model, evidence_task


@dataclass(frozen=True)
class Given(Signed):
    scores: Tensor

    def signed(self, question):
        return self.scores


def test_large_scores_stay_apart_and_in_order_and_padding_gets_nothing():
    scores = torch.tensor([[-400.0, -300.0, -1.0, 0.0, 1.0, 300.0, 400.0, 9.0]])
    batch = Batch({"tokens": torch.zeros_like(scores).long()}, torch.arange(8).unsqueeze(0) < 7)
    found = Given(scores)(Question(evidence_model(), evidence_task(), batch, 0, None))[0]
    assert found[2:5].tolist() == [0.25, 0.5, 0.75] and found[-1] == 0
    assert (found[:7].diff() > 0).all() and found[0] > 0 and found[6] < 1
