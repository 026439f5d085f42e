"""Agreement with marks of a person, counted by hand."""

import math
from dataclasses import replace

import pytest
import torch

from diffmask.evaluation.plausibility import RationaleAveragePrecision, RationaleIouF1, run_f1, runs
from diffmask.evaluation.set_overlap import RationaleF1


@pytest.fixture
def case(toys):
    """One example of eight units, of which a person marked two runs."""
    case = next(c for row in range(99) if (c := toys.judge(rows=[row])).question.batch.valid.all())
    marked = torch.tensor([[1, 1, 1, 0, 0, 1, 0, 0]]).bool()
    return replace(case, rationale=marked, truth=None)


def test_runs_are_found_between_the_gaps():
    assert runs([False, True, True, False, True]) == [(1, 3), (4, 5)]
    assert runs([]) == runs([False, False]) == [] and runs([True]) == [(0, 1)]


def test_a_run_is_right_if_it_shares_half_of_what_both_cover():
    assert run_f1([(0, 2)], [(0, 4)], 0.5) == 1  # 2 of 4
    assert run_f1([(0, 2)], [(0, 5)], 0.5) == 0  # 2 of 5
    assert run_f1([(0, 2), (7, 8)], [(0, 4)], 0.5) == pytest.approx(2 * 0.5 * 1 / 1.5)
    assert run_f1([], [(0, 4)], 0.5) == 0 and math.isnan(run_f1([(0, 1)], [], 0.5))


def test_figures_are_those_counted_by_hand(case):
    scores = torch.tensor([[0.9, 0.8, 0.1, 0.7, 0.0, 0.6, 0.2, 0.3]])
    case = replace(case, scores=scores)  # the four highest are units 0, 1, 3 and 5; three of them are marked
    assert float(RationaleF1()(case)) == pytest.approx(3 / 4)
    assert float(RationaleF1(kept="threshold", threshold=0.65)(case)) == pytest.approx(2 * 2 / (3 + 4))
    # In order of score: 0 yes, 1 yes, 3 no, 5 yes, 7 no, 6 no, 2 yes, 4 no.
    assert float(RationaleAveragePrecision()(case)) == pytest.approx((1 + 1 + 3 / 4 + 4 / 7) / 4)
    # Kept runs (0, 2), (3, 4), (5, 6); marked (0, 3), (5, 6): two of three are right.
    assert float(RationaleIouF1()(case)) == pytest.approx(2 * 2 / (3 + 2))
    assert float(RationaleIouF1(overlap=0.8)(case)) == pytest.approx(2 * 1 / (3 + 2))
    assert float(RationaleIouF1(kept="threshold", threshold=0.65)(case)) == pytest.approx(2 * 1 / (2 + 2))


def test_marks_on_padding_do_not_count(toys):
    case = toys.judge(toys.Noise())
    everywhere = replace(case, rationale=case.rationale | ~case.question.batch.valid)
    for metric in (RationaleF1(), RationaleAveragePrecision(), RationaleIouF1()):
        assert torch.equal(metric(case), metric(everywhere))
