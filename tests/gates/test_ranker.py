"""Rankers score the units of an example beside each other."""

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.gates.ranker import Ranker


@pytest.fixture
def ranker():
    torch.manual_seed(0)
    ranker = Ranker(6, 128, blocks=2)
    torch.nn.init.normal_(ranker.last.weight)
    return ranker.eval()


VALID = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def test_at_first_every_unit_scores_the_same():
    assert (Ranker(6, 32, blocks=1)(torch.randn(2, 5, 6), VALID) == 0).all()


def test_scores_are_beside_the_mean_of_their_example_and_padding_scores_nothing(ranker):
    scores = ranker(torch.randn(2, 5, 6), VALID)
    torch.testing.assert_close(scores.sum(1), torch.zeros(2), atol=1e-5, rtol=0)
    assert (scores[~VALID] == 0).all() and (scores[VALID] != 0).all()


def test_what_stands_in_the_padding_changes_nothing(ranker):
    state = torch.randn(2, 5, 6)
    other = torch.where(VALID.unsqueeze(-1), state, 9.0)
    torch.testing.assert_close(ranker(state, VALID), ranker(other, VALID))
    torch.testing.assert_close(ranker(state, VALID)[1:, :3], ranker(state[1:, :3], VALID[1:, :3]))


def test_an_example_without_a_real_unit_scores_nothing(ranker):
    valid = torch.tensor([[True] * 5, [False] * 5])
    scores = ranker(torch.randn(2, 5, 6), valid)
    assert (scores[1] == 0).all() and scores.isfinite().all()


def test_a_unit_is_scored_by_what_else_there_is_and_not_by_its_place(ranker):
    state, order = torch.randn(2, 5, 6), [4, 2, 0, 1, 3]
    full = torch.ones_like(VALID)
    torch.testing.assert_close(ranker(state, full)[:, order], ranker(state[:, order], full))
    twin = state.clone()
    twin[:, 1] = twin[:, 0]
    change = ranker(twin, full) - ranker(state, full)
    assert not torch.allclose(change[:, 2] - change[:, 3], torch.zeros(2), atol=1e-4)  # more than the mean has moved


def test_what_never_varied_is_not_read(ranker):
    ranker.standardise(torch.ones(6), torch.tensor([0.0] + [1.0] * 5))
    state = torch.randn(2, 5, 6)
    other = torch.cat([state[..., :1] + 0.01, state[..., 1:]], dim=-1)
    assert torch.equal(ranker(state, VALID), ranker(other, VALID))


def test_it_does_not_remember_weights_under_autocast(ranker):
    state = torch.randn(2, 5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        before = ranker(state, VALID)
        with torch.no_grad():
            ranker.first.weight.mul_(2)
        assert before.dtype == torch.float32 and not torch.equal(before, ranker(state, VALID))


def test_a_probe_that_chooses_does_not_rank():
    probe = make_probe(["a"], [4], ProbeConfig())
    with pytest.raises(SettingError, match="chooses units and does not rank them"):
        probe.rank({"a": torch.randn(2, 5, 4)}, 0)
    with pytest.raises(SettingError, match="blocks must be 0 or a number of layers, got -1"):
        ProbeConfig(blocks=-1)
