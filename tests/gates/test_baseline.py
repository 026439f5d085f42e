"""Baselines: one vector per site or one for all, learned or not."""

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.gates.baseline import Baseline, BaselineConfig


def test_each_site_has_a_vector_of_its_width():
    baseline = Baseline([2, 3])
    assert [baseline(i).shape for i in (0, 1)] == [(2,), (3,)]


def test_setting_one_leaves_the_others():
    baseline = Baseline([2, 2])
    baseline.set(1, torch.tensor([1.0, 2.0]))
    assert baseline(0).tolist() == [0, 0] and baseline(1).tolist() == [1, 2]


def test_a_shared_vector_is_the_same_everywhere():
    baseline = Baseline([2, 2, 2], shared=True)
    baseline.set(2, torch.tensor([1.0, 2.0]))
    assert baseline(0) is baseline(2) and len(baseline.vectors) == 1


def test_sites_of_different_width_cannot_share():
    with pytest.raises(SettingError, match=r"baseline\.shared needs sites of one width, these have \[2, 3\]"):
        Baseline([3, 2], shared=True)


@pytest.mark.parametrize("learned", [True, False])
def test_a_vector_learns_only_if_told_to(learned):
    assert Baseline([2], learned=learned)(0).requires_grad is learned


def test_starting_at_a_token_needs_its_id():
    with pytest.raises(SettingError, match=r"baseline\.start = token needs the token's id: set baseline\.token"):
        BaselineConfig(start="token")
    assert BaselineConfig(start="token", token=3).token == 3


def test_an_unknown_start_is_refused_with_the_choices():
    config = BaselineConfig()
    object.__setattr__(config, "start", "median")  # past the type checker, which users do not run
    with pytest.raises(SettingError, match=r"baseline\.start: no choice named 'median'"):
        config.__post_init__()


def test_beyond_its_positions_a_baseline_is_the_same_everywhere():
    baseline = Baseline([2], positions=[3])
    baseline.set(0, torch.tensor([10.0, 20.0]))
    baseline.set_offsets(0, torch.arange(10.0).view(5, 2))  # of five positions seen it may differ at three
    assert baseline(0).tolist() == [[10, 21], [12, 23], [14, 25], [10, 20]]
    assert baseline.vector(0).tolist() == [10, 20]


def test_fewer_positions_seen_than_allowed_leave_the_rest_as_they_are():
    baseline = Baseline([2], positions=[3])
    baseline.set_offsets(0, torch.ones(1, 2))
    assert baseline(0).tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]


def test_without_positions_a_baseline_is_a_vector():
    baseline = Baseline([2, 3], positions=[0, 4])
    baseline.set_offsets(0, torch.ones(3, 2))
    assert baseline(0).tolist() == [0, 0] and baseline(1).shape == (5, 3)


def test_offsets_are_measured_and_do_not_learn():
    baseline = Baseline([2], positions=[2])
    baseline(0).sum().backward()
    assert baseline.offsets[0].grad is None and baseline.vectors[0].grad.tolist() == [3, 3]


def test_a_negative_number_of_positions_is_refused():
    with pytest.raises(SettingError, match=r"baseline\.positions must be 0 or a number of positions, got -1"):
        BaselineConfig(positions=-1)
