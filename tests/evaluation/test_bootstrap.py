"""Intervals of means: how often they hold the truth, and what they do with figures that are not there."""

import math

import pytest
import torch

from diffmask.errors import DataError, SettingError
from diffmask.evaluation import bootstrap
from diffmask.evaluation.bootstrap import Interval, difference_interval, mean_interval


def draw(count, seed=0):
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def test_the_interval_is_that_of_the_normal_law_for_many_examples():
    figures = draw(2000)
    found = mean_interval(figures)
    error = 1.96 * float(figures.std()) / math.sqrt(2000)
    assert found.mean == pytest.approx(float(figures.double().mean()))
    assert found.low == pytest.approx(found.mean - error, abs=0.1 * error)
    assert found.high == pytest.approx(found.mean + error, abs=0.1 * error)
    assert (found.count, found.undefined) == (2000, 0)


def test_nineteen_of_twenty_intervals_hold_the_true_mean():
    found = [mean_interval(draw(60, seed), resamples=500, seed=seed) for seed in range(300)]
    assert 0.90 <= sum(interval.low <= 0 <= interval.high for interval in found) / 300 <= 0.98


def test_means_are_those_of_a_loop_over_resamples():
    figures, generator = draw(7).double(), torch.Generator().manual_seed(3)
    means = []
    for rows in torch.randint(7, (40, 7), generator=generator):
        means.append(sum(float(figures[row]) for row in rows) / 7)
    found = mean_interval(figures, level=0.5, resamples=40, seed=3)
    assert (found.low, found.high) == pytest.approx((sorted(means)[9], sorted(means)[30]))


def test_undefined_figures_are_counted_and_left_out():
    figures = draw(30)
    holes = torch.cat([figures, torch.full((4,), torch.nan)])[torch.randperm(34)]
    found = mean_interval(holes)
    assert (found.count, found.undefined) == (30, 4) and found.mean == pytest.approx(float(figures.double().mean()))
    nothing = mean_interval(torch.full((3,), torch.nan))
    assert math.isnan(nothing.mean) and math.isnan(nothing.low) and (nothing.count, nothing.undefined) == (0, 3)
    assert mean_interval(torch.tensor([2.0])) == Interval(2.0, 2.0, 2.0, 1, 0)


def test_an_infinite_figure_makes_the_mean_infinite_and_nothing_undefined():
    found = mean_interval(torch.tensor([1.0] * 50 + [math.inf]))
    assert found.mean == found.high == math.inf and found.low == 1


def test_a_paired_difference_is_sharper_than_two_means():
    hard = 5 * draw(100, 1)
    better, worse = hard + 0.2 + 0.1 * draw(100, 2), hard + 0.1 * draw(100, 3)
    found = difference_interval(better, worse)
    assert 0 < found.low < 0.2 < found.high and mean_interval(better).low < mean_interval(worse).high
    worse[:7] = torch.nan
    better[5:9] = torch.nan
    assert (difference_interval(better, worse).count, difference_interval(better, worse).undefined) == (91, 9)


def test_the_same_seed_draws_the_same_and_another_does_not():
    figures = draw(20)
    assert mean_interval(figures, seed=1) == mean_interval(figures, seed=1) != mean_interval(figures, seed=2)


def test_resamples_drawn_in_parts_are_as_many(monkeypatch):
    whole = mean_interval(draw(20), resamples=101)
    monkeypatch.setattr(bootstrap, "DRAWN", 45)
    found = mean_interval(draw(20), resamples=101)
    assert (found.low, found.high) == pytest.approx((whole.low, whole.high), abs=0.2)
    assert len(bootstrap._resampled_means(draw(20).double(), 101, 0)) == 101


def test_what_makes_no_interval_is_refused():
    with pytest.raises(SettingError, match="level of an interval must lie between 0 and 1, got 95"):
        mean_interval(draw(3), level=95)
    with pytest.raises(SettingError, match="resamples of an interval must be at least 1"):
        mean_interval(draw(3), resamples=0)
    with pytest.raises(DataError, match="figures for the same examples, got 3 and 4"):
        difference_interval(draw(3), draw(4))
