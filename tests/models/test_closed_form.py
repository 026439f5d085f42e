"""The closed-form models can be visited like any other."""

import pytest
import torch

from diffmask.models.closed_form import RULES, ClosedForm, adapt_closed_form
from diffmask.models.sites import capture, replace
from diffmask.types import Batch

AMOUNTS = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
TOKENS = torch.tensor([[0, 2, 3, 1], [2, 1, 0, 0]])
REAL = torch.tensor([[True] * 4, [True, True, False, False]])
BATCH = Batch({"tokens": TOKENS, "real": REAL}, REAL)
rules = pytest.mark.parametrize("rule", RULES)


@rules
def test_padding_does_not_change_the_answer(rule):
    model = ClosedForm(rule, AMOUNTS, 0)
    other = torch.tensor([[0, 2, 3, 1], [2, 1, 3, 2]])
    longer = torch.cat([other, other[:, :1]], 1), torch.cat([REAL, torch.zeros(2, 1, dtype=torch.bool)], 1)
    assert torch.equal(model(TOKENS, REAL), model(other, REAL))
    assert torch.allclose(model(TOKENS, REAL), model(*longer))


@rules
def test_a_state_can_be_replaced_and_its_gradient_taken(rule):
    model = adapt_closed_form(ClosedForm(rule, AMOUNTS, 0))
    with torch.no_grad(), capture(model.sites) as states:
        answer = model(BATCH)
    for name in model.sites.names:
        state = (0.7 * states[name]).requires_grad_(True)  # inside, where no rule is flat
        with replace(model.sites[name], states[name]):
            assert torch.equal(model(BATCH), answer)
        with replace(model.sites[name], state):
            (slope,) = torch.autograd.grad(model(BATCH)[0], state)
        assert bool(slope[0].abs().sum() > 0) and not bool(slope[1].any())


@rules
def test_every_seed_hides_the_amounts_elsewhere_and_answers_the_same(rule):
    one, two = (ClosedForm(rule, AMOUNTS, seed) for seed in (0, 1))
    assert not torch.isclose(one.embedding.weight, two.embedding.weight).any()
    assert torch.allclose(one(TOKENS, REAL), two(TOKENS, REAL), atol=1e-4)
