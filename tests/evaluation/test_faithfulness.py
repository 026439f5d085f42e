"""Sufficiency, comprehensiveness, perturbation curves, infidelity and leave-one-out, against loops over single runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.errors import DataError, SettingError
from diffmask.evaluation import loo_agreement
from diffmask.evaluation.eraser import Comprehensiveness, Sufficiency
from diffmask.evaluation.figure import left, predict
from diffmask.evaluation.infidelity import Infidelity, scaled_error
from diffmask.evaluation.loo_agreement import LeaveOneOutAgreement
from diffmask.evaluation.perturbation import AreaLeastFirst, AreaMostFirst, SymmetricRelevanceGain, curves
from diffmask.evaluation.ranking import kendall
from diffmask.tasks.tensors import TensorTask
from diffmask.types import Categorical, Value

WEIGHTS = [0.0, 0.0, 3.0, -3.0]
FIGURES = ["probability", "log-probability", "negative-kl", "agreement"]


def evidence_left(case, row, removed):
    """Add up the evidence of one example without some units; what replaces them says nothing."""
    tokens, valid = case.question.batch.inputs["tokens"][row].tolist(), case.question.batch.valid[row].tolist()
    return sum(WEIGHTS[t] for i, (t, real) in enumerate(zip(tokens, valid, strict=True)) if real and i not in removed)


def figure_by_hand(case, row, removed, figure):
    before, after = (1 / (1 + math.exp(-evidence_left(case, row, gone))) for gone in ((), removed))
    yes = evidence_left(case, row, ()) > 0
    chosen = after if yes else 1 - after
    if figure == "agreement":
        return float((evidence_left(case, row, removed) > 0) == yes)
    if figure == "negative-kl":
        return -(before * math.log(before / after) + (1 - before) * math.log((1 - before) / (1 - after)))
    return chosen if figure == "probability" else math.log(chosen)


def order_by_hand(case, row, most=True):
    """Order the real units by score, by Python's own sorting; the scores used here have no ties."""
    units = case.question.batch.valid[row].nonzero().flatten().tolist()
    return sorted(units, key=lambda unit: float(case.scores[row, unit]), reverse=most)


@pytest.fixture
def case(toys):
    return toys.judge(toys.Noise(), rows=range(25), task=toys.mixed())


@pytest.mark.parametrize("figure", FIGURES)
def test_sufficiency_and_comprehensiveness_are_means_over_shares_rounded_up(case, figure):
    shares = (0.05, 0.2, 0.5)
    comp = Comprehensiveness(shares=shares, figure=figure)(case)
    suff = Sufficiency(shares=shares, figure=figure)(case)
    for row in range(25):
        order = order_by_hand(case, row)
        tops = [set(order[: max(1, math.ceil(share * len(order) - 1e-9))]) for share in shares]
        full = figure_by_hand(case, row, (), figure)
        without = [full - figure_by_hand(case, row, top, figure) for top in tops]
        only = [full - figure_by_hand(case, row, set(order) - top, figure) for top in tops]
        assert float(comp[row]) == pytest.approx(sum(without) / 3, abs=2e-5)
        assert float(suff[row]) == pytest.approx(sum(only) / 3, abs=2e-5)


def test_both_can_ask_about_the_units_the_explanation_keeps(case):
    comp, suff = Comprehensiveness(at="kept", threshold=0.4)(case), Sufficiency(at="kept", threshold=0.4)(case)
    for row in range(25):
        kept = {unit for unit in order_by_hand(case, row) if case.scores[row, unit] > 0.4}
        rest = set(order_by_hand(case, row)) - kept
        full = figure_by_hand(case, row, (), "probability")
        assert float(comp[row]) == pytest.approx(full - figure_by_hand(case, row, kept, "probability"), abs=1e-5)
        assert float(suff[row]) == pytest.approx(full - figure_by_hand(case, row, rest, "probability"), abs=1e-5)
    assert Sufficiency().ranks_only and not Sufficiency(at="kept").ranks_only


CHOICES = """
from diffmask.evaluation import METRICS
wrong = {"comprehensiveness": {"at": "kep"}, "srg": {"figure": "probabilty"}, "f1": {"kept": "siez"}}
for name, settings in wrong.items():
    try:
        METRICS.get(name)(**settings)
    except Exception as error:
        sys.stderr.write(str(error))
"""


def test_an_unknown_choice_is_refused_with_the_nearest(outside):
    complaint = outside(CHOICES)
    assert "comprehensiveness.at: no choice named 'kep'; did you mean 'kept'?" in complaint
    assert "no figure named 'probabilty'; did you mean 'probability'?" in complaint
    assert "no way of picking kept units named 'siez'; did you mean 'size'?" in complaint


def test_shares_and_points_out_of_range_are_refused():
    with pytest.raises(SettingError, match=r"shares of sufficiency are parts of the units in \(0, 1\], got \(0.0,\)"):
        Sufficiency(shares=(0.0,))
    with pytest.raises(SettingError, match="must be at least 2, its two ends, got 1"):
        AreaMostFirst(points=1)


@pytest.mark.parametrize("figure", FIGURES)
def test_areas_are_those_under_the_curve_over_every_count_of_units(case, figure):
    most, least, gain = (m(figure=figure)(case) for m in (AreaMostFirst, AreaLeastFirst, SymmetricRelevanceGain))
    for row in range(25):
        areas = []
        for first in (True, False):
            order = order_by_hand(case, row, first)  # at most six units, so eleven points meet every count
            values = [figure_by_hand(case, row, set(order[:count]), figure) for count in range(len(order) + 1)]
            areas.append(sum(values[1:-1]) / len(order) + (values[0] + values[-1]) / 2 / len(order))
        assert [float(most[row]), float(least[row])] == pytest.approx(areas, abs=2e-5)
        assert float(gain[row]) == pytest.approx(areas[1] - areas[0], abs=4e-5)


def test_curves_begin_with_everything_and_end_with_nothing_in_both_orders(case):
    found = curves(case, points=5)
    assert found.shares.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert found.removed[0].eq(0).all() and found.removed[-1].eq(1).all()
    torch.testing.assert_close(found.most_first[[0, -1]], found.least_first[[0, -1]])
    torch.testing.assert_close(found.most_first[0], left(predict(case.question), predict(case.question), "probability"))
    assert found.most_first.shape == found.least_first.shape == (5, 25)


def test_scores_that_say_nothing_gain_exactly_nothing(case):
    constant = replace(case, scores=case.question.batch.valid.float())
    assert SymmetricRelevanceGain()(constant).abs().max() < 1e-6


def test_equal_scores_come_in_another_order_with_another_seed(case):
    constant = replace(case, scores=case.question.batch.valid.float())
    assert not torch.equal(AreaMostFirst(seed=0)(constant), AreaMostFirst(seed=1)(constant))
    assert torch.equal(AreaMostFirst(seed=0)(case), AreaMostFirst(seed=1)(case))


def test_a_value_has_no_decision_to_ask_about(toys):
    inputs, valid = toys.mixed().inputs, toys.mixed().valid
    case = toys.judge(task=TensorTask(inputs, valid, "value"), rows=range(3))
    assert SymmetricRelevanceGain(figure="negative-kl")(case).isfinite().all()
    with pytest.raises(SettingError, match=r"'probability' asks what became of a decision, .* figure 'negative-kl'"):
        SymmetricRelevanceGain()(case)


def test_a_decision_of_several_heads_has_the_product_of_their_probabilities():
    one, other = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 0.0, 1.0]])
    original = {"start": Categorical(one), "end": Categorical(other)}
    expected = float(one.softmax(1)[0, 0] * other.softmax(1)[0, 2])
    assert float(left(original, original, "probability")) == pytest.approx(expected)
    with pytest.raises(SettingError):
        left({"value": Value(one)}, {"value": Value(one)}, "agreement")


@pytest.mark.parametrize("figure", ["probability", "negative-kl"])
def test_infidelity_is_the_squared_error_at_the_best_scale(case, figure):
    metric = Infidelity(samples=9, figure=figure)
    sets, found = metric._sets(case), metric(case)
    for row in range(25):
        sums, changes = [], []
        for chosen in sets[:, row]:
            gone = set(chosen.nonzero().flatten().tolist())
            assert gone and gone == set(range(min(gone), max(gone) + 1))  # a run of neighbours
            assert case.question.batch.valid[row][list(gone)].all()
            sums.append(sum(float(case.scores[row, unit]) for unit in gone))
            changes.append(figure_by_hand(case, row, (), figure) - figure_by_hand(case, row, gone, figure))
        scales = np.linspace(0, 20, 20001)
        errors = np.mean((scales[:, None] * np.array(sums) - np.array(changes)) ** 2, axis=1)
        assert float(found[row]) == pytest.approx(errors.min(), abs=1e-4)


def test_infidelity_does_not_know_the_scale_of_scores_and_is_0_for_what_adds_up(toys):
    inputs, valid = toys.mixed().inputs, toys.mixed().valid
    case = toys.judge(task=TensorTask(inputs, valid, lambda output: {"value": Value(output)}), rows=range(8))
    case = replace(case, scores=case.scores * (1 + torch.arange(case.scores.shape[1])))
    metric = Infidelity(figure="negative-kl")
    torch.testing.assert_close(metric(case), metric(replace(case, scores=37 * case.scores)))
    sums = torch.rand(20, 3, dtype=torch.double)
    assert scaled_error(sums, 5 * sums).max() < 1e-12
    assert torch.equal(scaled_error(sums, -sums), sums.square().mean(0))  # a scale does not turn scores around
    assert torch.equal(scaled_error(0 * sums, sums), sums.square().mean(0))


def test_on_a_grid_infidelity_removes_squares(toys):
    sets = Infidelity(grid_width=4, samples=50)._draw(12, torch.rand(3, 50, dtype=torch.double)).view(50, 3, 4)
    for chosen in sets:
        rows, columns = chosen.any(1), chosen.any(0)
        assert int(rows.sum()) == int(columns.sum()) and torch.equal(chosen, rows.unsqueeze(1) & columns)
    with pytest.raises(DataError, match="an example has 12 units, which are no rows of 5"):
        Infidelity(grid_width=5)._draw(12, torch.rand(3, 2, dtype=torch.double))
    with pytest.raises(SettingError, match="samples of infidelity must be at least 1, got 0"):
        Infidelity(samples=0)


def test_a_square_may_lie_anywhere_on_the_grid():
    shares = torch.rand(3, 500, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    sets = Infidelity(grid_width=3)._draw(6, shares)
    single = sets[sets.sum(1) == 1]
    assert single.any(0).all() and len(sets[sets.sum(1) == 4].int().unique(dim=0)) == 2


def test_runs_of_every_length_and_place_are_drawn():
    sets = Infidelity()._draw(3, torch.rand(3, 2000, generator=torch.Generator().manual_seed(0), dtype=torch.double))
    kinds, counts = sets.int().unique(dim=0, return_counts=True)
    assert len(kinds) == 6
    expected = {1: 1 / 9, 2: 1 / 6, 3: 1 / 3}  # a length is drawn first, then its place
    for kind, count in zip(kinds, counts, strict=True):
        assert float(count) / 2000 == pytest.approx(expected[int(kind.sum())], abs=0.03)


def test_agreement_with_leave_one_out_is_kendall_with_that_method(case):
    missed, found = LeaveOneOut()(case.question), LeaveOneOutAgreement()(case)
    for row in range(25):
        real = case.question.batch.valid[row]
        rounded = (missed[row][real].double() * 1e6).round()
        expected = float(kendall(case.scores[row][real].double(), rounded))
        assert float(found[row]) == pytest.approx(expected, nan_ok=True)
    assert found.isnan().any() and not found.isnan().all()  # an example of one unit ranks nothing


def test_units_left_out_in_parts_are_those_left_out_at_once(case, monkeypatch):
    whole = LeaveOneOutAgreement()(case)
    monkeypatch.setattr(loo_agreement, "AT_A_TIME", 4)
    torch.testing.assert_close(LeaveOneOutAgreement()(case), whole, equal_nan=True)


def test_differences_below_the_tolerance_are_no_order(case):
    assert LeaveOneOutAgreement(tolerance=1e3)(case).isnan().all()


def test_leave_one_out_agrees_with_itself(case):
    found = LeaveOneOutAgreement()(replace(case, scores=(LeaveOneOut()(case.question) * 1e6).round()))
    assert found[~found.isnan()].min() > 0.999
    with pytest.raises(SettingError, match="tolerance of leave-one-out agreement must be positive"):
        LeaveOneOutAgreement(tolerance=0.0)
