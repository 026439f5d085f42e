"""How far seeds lie apart, counted by hand."""

import pytest
import torch

from diffmask.studies.spread import rank_correlation, spread

SAID = torch.tensor([[[0.0, 1.0, 2.0, 5.0, 3.0]], [[0.0, 3.0, 2.0, 5.0, 1.0]]])  # two seeds, one depth, 3 + 2 units


def test_the_spread_is_over_seeds_and_beside_it_stands_how_far_units_differ():
    found = spread(SAID, [3, 2])
    deviation = 2**0.5 * 2 / 5  # two values that are 2 apart deviate by √2; two units of five do
    assert found["mean"] == pytest.approx(deviation) and found["by_depth"] == pytest.approx([deviation])
    assert found["between_units"] == pytest.approx(float(SAID.std(2).mean()))


def test_ranks_are_compared_within_an_example():
    assert rank_correlation(SAID, [3, 2]) == pytest.approx((0.5 + 1) / 2)
    assert rank_correlation(SAID, [5]) == pytest.approx(0.6)


def test_an_example_that_ranks_nothing_has_no_vote():
    level = SAID.clone()
    level[0, 0, :3] = 1.0
    assert rank_correlation(level, [3, 2]) == pytest.approx(1)


def test_one_seed_has_no_spread():
    assert spread(SAID[:1], [3, 2]) == {"mean": 0.0, "by_depth": []}
