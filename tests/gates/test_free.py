"""Free gates: one logit per unit of the examples at hand, used wherever a probe is."""

import pytest
import torch

from diffmask.gates.free import FreeGates
from diffmask.gates.hard_concrete import HardConcrete
from diffmask.gates.score_function import ScoreFunction


@pytest.mark.parametrize("gate", [HardConcrete(), ScoreFunction()], ids=["hard concrete", "reinforce"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_share_kept_at_first_is_the_one_asked_for(gate, share):
    free = FreeGates((2, 3), "embed", torch.zeros(4), gate, start_open=share)
    assert torch.allclose(free({}, 0).keep_probability(), torch.full((2, 3), share))


def test_each_unit_has_a_logit_of_its_own():
    free = FreeGates((2, 3), "embed", torch.zeros(4), HardConcrete())
    votes = free({}, 0)
    assert votes.logits.shape == (1, 2, 3)
    votes.log_keep()[1, 2].backward()
    assert free.logits.grad.nonzero().tolist() == [[1, 2]]


def test_depth_and_states_change_nothing():
    free = FreeGates((2, 3), "embed", torch.ones(4), HardConcrete())
    assert torch.equal(free({}, 0).logits, free({"embed": torch.randn(2, 3, 4)}, 5).logits)
    assert free.site_name(0) == free.site_name(5) == "embed"


def test_the_baseline_is_a_copy_that_does_not_learn():
    given = torch.ones(4, requires_grad=True)
    free = FreeGates((2, 3), "embed", given, HardConcrete())
    given.data.zero_()
    assert free.baseline(0).tolist() == [1, 1, 1, 1] and not free.baseline(0).requires_grad
    assert [name for name, _ in free.named_parameters()] == ["logits"]
