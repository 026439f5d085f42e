"""Free gates: one logit per unit of the examples at hand, used wherever a probe is."""

import pytest
import torch

from diffmask.gates.free import FreeGates
from diffmask.gates.hard_concrete import HardConcrete
from diffmask.gates.score_function import ScoreFunction


@pytest.mark.parametrize("gate", [HardConcrete(), ScoreFunction()], ids=["hard concrete", "reinforce"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_share_kept_at_first_is_the_one_asked_for(gate, share):
    free = FreeGates(torch.ones(2, 3, dtype=torch.bool), "embed", torch.zeros(4), gate, start_open=share)
    assert torch.allclose(free.votes({}, [0])[0].keep_probability(), torch.full((2, 3), share))


def test_each_unit_has_a_logit_of_its_own():
    free = FreeGates(torch.ones(2, 3, dtype=torch.bool), "embed", torch.zeros(4), HardConcrete())
    (votes,) = free.votes({}, [0])
    assert votes.logits.shape == (1, 2, 3)
    votes.log_keep()[1, 2].backward()
    assert free.logits.grad.nonzero().tolist() == [[1, 2]]


def test_depth_and_states_change_nothing():
    free = FreeGates(torch.ones(2, 3, dtype=torch.bool), "embed", torch.ones(4), HardConcrete())
    (one,), (other, again) = free.votes({}, [0]), free.votes({"embed": torch.randn(2, 3, 4)}, [5, 1])
    assert torch.equal(one.logits, other.logits) and torch.equal(one.logits, again.logits)
    assert free.site_name(0) == free.site_name(5) == "embed"


def test_the_baseline_is_a_copy_that_does_not_learn():
    given = torch.ones(4, requires_grad=True)
    free = FreeGates(torch.ones(2, 3, dtype=torch.bool), "embed", given, HardConcrete())
    given.data.zero_()
    assert free.baseline(0).tolist() == [1, 1, 1, 1] and not free.baseline(0).requires_grad
    assert [name for name, _ in free.named_parameters()] == ["logits"]


def test_free_gates_may_have_no_baseline_at_all():
    free = FreeGates(torch.ones(2, 3, dtype=torch.bool), "embed", None, HardConcrete())
    assert free.baseline(0) is None and free.votes({}, [0])[0].logits.shape == (1, 2, 3)
