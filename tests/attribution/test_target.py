"""What gradients explain, by hand and with other logits than the decision was made on."""

import pytest
import torch
from torch import nn

from diffmask.errors import ModelError
from diffmask.models.adapting import adapt
from diffmask.objective.target import gradient, target
from diffmask.tasks.tensors import TensorTask
from diffmask.training.step import look
from diffmask.types import Bernoulli, Categorical, Value


def test_it_follows_the_original_decision_even_where_another_would_win():
    original = {"label": Categorical(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))}
    logits = torch.tensor([[0.0, 3.0], [0.0, 3.0]])
    expected = torch.stack([logits[0].log_softmax(0)[0], logits[1].log_softmax(0)[1]])
    torch.testing.assert_close(target({"label": Categorical(logits)}, original), expected)


def test_a_yes_or_no_counts_by_the_side_that_was_taken():
    original = {"labels": Bernoulli(torch.tensor([[2.0, -2.0]]))}
    found = target({"labels": Bernoulli(torch.tensor([[0.5, 0.5]]))}, original)
    torch.testing.assert_close(
        found, nn.functional.logsigmoid(torch.tensor([0.5])) + (1 - torch.tensor([0.5]).sigmoid()).log()
    )


def test_a_value_counts_as_it_is_and_heads_are_added_up():
    prediction = {"value": Value(torch.tensor([[1.5], [-2.0]])), "label": Categorical(torch.zeros(2, 4))}
    torch.testing.assert_close(target(prediction, prediction), torch.tensor([1.5, -2.0]) - torch.tensor(4.0).log())


@pytest.mark.parametrize(("head", "shape"), [(Categorical, (2, 3, 4)), (Bernoulli, (2, 3)), (Value, (2, 3))])
def test_what_stands_at_padding_never_counts_nor_gets_a_gradient(head, shape):
    real = torch.tensor([[True, True, True], [True, False, False]])
    raw = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    raw[1, 1:] = torch.nan
    raw.requires_grad_(True)
    found = target({"y": head(raw, real)}, {"y": head(raw.detach(), real)})
    first = target({"y": head(raw[1:, :1])}, {"y": head(raw[1:, :1])})
    torch.testing.assert_close(found[1:], first)
    (slope,) = torch.autograd.grad(found.sum(), raw)
    assert (slope[1, 1:] == 0).all() and slope.isfinite().all() and (slope[0] != 0).any()


def test_a_category_that_is_ruled_out_does_no_harm():
    raw = torch.tensor([[1.0, -torch.inf, 0.0]], requires_grad=True)
    found = target({"start": Categorical(raw)}, {"start": Categorical(raw)})
    (slope,) = torch.autograd.grad(found.sum(), raw)
    assert found.isfinite().all() and slope.isfinite().all()


class Deaf(nn.Module):
    """Runs where no gradient can follow."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)

    @torch.no_grad()
    def forward(self, ids):
        return self.embedding(ids).sum(1)


def test_a_prediction_that_no_gradient_leads_back_from_is_refused():
    model, task = (
        adapt(Deaf(), sites=["embedding"]),
        TensorTask({"ids": torch.zeros(4, 3).long()}, torch.ones(4, 3).bool()),
    )
    seen = look(model, task, task.collate([0, 1]))
    with pytest.raises(ModelError, match=r"no gradient reaches site 'embedding'.*such as leave-one-out"):
        gradient(seen, "embedding", seen.states["embedding"])
