"""Models whose answer is a formula of which units are present, written so that gradients and masks work.

Each token is embedded as its amounts for and against, hidden in a random rotation among features that say nothing. A
reader finds the amounts again, and the formula answers. A unit replaced by the zero vector has no amounts: it is gone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import UnknownNameError
from ..registry import unknown
from .adapter import Adapter
from .sites import Site

Amounts = Float[Tensor, "batch unit 2"]  # of each unit: for, against


def present(amounts: Amounts) -> Float[Tensor, "batch 2"]:
    """Return 1 for a side that some unit is on and 0 otherwise; in between, the chance that one of them is there."""
    return 1 - (1 - amounts).prod(1)


def balance(amounts: Amounts) -> Float[Tensor, " batch"]:
    """Add up what is for and take off what is against."""
    plus, minus = amounts.sum(1).unbind(-1)
    return plus - minus


def both(amounts: Amounts) -> Float[Tensor, " batch"]:
    plus, minus = present(amounts).unbind(-1)
    return 8 * plus * minus - 4


def either(amounts: Amounts) -> Float[Tensor, " batch"]:
    plus, minus = present(amounts).unbind(-1)
    return 8 * (plus + minus - plus * minus) - 4


def one_alone(amounts: Amounts) -> Float[Tensor, " batch"]:
    plus, minus = present(amounts).unbind(-1)
    return 8 * (plus + minus - 2 * plus * minus) - 4


def majority(amounts: Amounts) -> Float[Tensor, " batch"]:
    return 3 * torch.tanh(2 * balance(amounts))


def one_copy(amounts: Amounts) -> Float[Tensor, " batch"]:
    """Answer by the side that is there at all: a second copy adds nothing."""
    plus, minus = present(amounts).unbind(-1)
    return 4 * (plus - minus)


Rule = Callable[[Tensor], Tensor]
RULES: dict[str, Rule] = {
    "additive": balance,
    "and": both,
    "or": either,
    "xor": one_alone,
    "majority": majority,
    "copies": one_copy,
    "cancellation": balance,
}


class ClosedForm(nn.Module):
    """Embed tokens, read their amounts, and answer with one logit by the rule; a seed draws all that does not matter.

    >>> model = ClosedForm("and", torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), seed=0)
    >>> model(torch.tensor([[0, 1, 2], [0, 1, 0]]), torch.ones(2, 3, dtype=torch.bool)).round()
    tensor([ 4., -4.])
    """

    def __init__(self, rule: str, amounts: Float[Tensor, "token 2"], seed: int, width: int = 16) -> None:
        super().__init__()
        if rule not in RULES:
            raise UnknownNameError(unknown("rule", rule, RULES))
        self.rule = RULES[rule]
        self.embedding = nn.Embedding(len(amounts), width)
        self.reader = nn.Linear(width, 2, bias=False)
        draw = torch.Generator().manual_seed(seed)
        rotation = torch.linalg.qr(torch.randn(width, width, generator=draw)).Q
        features = torch.cat([amounts, torch.randn(len(amounts), width - 2, generator=draw)], dim=1)
        with torch.no_grad():
            self.embedding.weight.copy_(features @ rotation)
            self.reader.weight.copy_(rotation[:2])

    def forward(self, tokens: Int[Tensor, "batch unit"], real: Bool[Tensor, "batch unit"]) -> Float[Tensor, " batch"]:
        amounts = self.reader(self.embedding(tokens))  # (batch, unit, 2)
        return self.rule(torch.where(real.unsqueeze(-1), amounts, 0))


def adapt_closed_form(model: ClosedForm) -> Adapter:
    """Name the two places where units can be replaced; the zero vector means nothing at both."""
    return Adapter(model, [Site("embedding", model.embedding), Site("amounts", model.reader)])
