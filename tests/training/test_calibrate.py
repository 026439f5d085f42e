"""Calibration: shift the votes of a depth until its thresholded masks just hold the margin."""

import math
from dataclasses import replace

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.training.calibrate import NEAR, calibrate
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.validate import DepthScore, validate
from toys import evidence_model, evidence_task, small_recipe


def small_probe():
    return make_probe(("a", "b", "c"), (2, 2, 2), ProbeConfig(kind="hidden", bound=9.0))


def scores_when(probe, needed):
    """Say what a depth's masks change: nothing once it is shifted by what it needs."""

    def scores():
        shifts = probe.shift.tolist()
        return [
            DepthScore(d, 0, 0, 0.0 if s >= n else 1.0, 1) for d, (s, n) in enumerate(zip(shifts, needed, strict=True))
        ]

    return scores


def test_a_depth_that_holds_stays_and_one_that_breaks_is_shifted_as_little_as_holds():
    probe, needed = small_probe(), [0.0, 3.3, 12.0]
    calibrate(probe, scores_when(probe, needed), margin=0.1, undecided=0)
    shift = probe.shift.tolist()
    assert shift[0] == 0
    for found, least in zip(shift[1:], needed[1:], strict=True):
        assert least <= found <= least + NEAR


def test_where_the_divergence_falls_smoothly_few_looks_are_enough():
    probe, looks = small_probe(), []

    def scores():
        looks.append(1)
        return [DepthScore(d, 0, 0, 0.4 * math.exp(-s / (d + 1)), 1) for d, s in enumerate(probe.shift.tolist())]

    calibrate(probe, scores, margin=0.1, undecided=0)
    expected = [(d + 1) * math.log(4) for d in range(3)]
    assert len(looks) <= 8
    for found, least in zip(probe.shift.tolist(), expected, strict=True):
        assert least <= found <= least + 4 * NEAR


def test_a_depth_that_nothing_helps_is_opened_altogether():
    probe = small_probe()
    calibrate(probe, scores_when(probe, [0.0, 1e9, 0.0]), margin=0.1, undecided=0)
    assert probe.shift.tolist() == [0, 18, 0]


def test_where_there_is_room_undecided_units_may_be_dropped_and_no_others():
    probe, needed = small_probe(), [-1.5, -5.0, 3.3]
    calibrate(probe, scores_when(probe, needed), margin=0.1, undecided=2.0)
    shift = probe.shift.tolist()
    assert -1.5 <= shift[0] <= -1.5 + NEAR
    assert shift[1] == -2
    assert 3.3 <= shift[2] <= 3.3 + NEAR


def test_undecided_is_a_size():
    with pytest.raises(SettingError, match="undecided must be 0 or more, got -1"):
        recipe(undecided=-1.0)


def test_twice_the_bound_opens_every_gate_however_closed():
    probe = make_probe(("a", "b"), (2, 2), ProbeConfig(bound=9.0))
    with torch.no_grad():
        for voter in probe.voters:
            voter.last.bias.fill_(-100)
    states = {name: torch.randn(3, 4, 2) for name in ("a", "b")}
    assert not probe(states, 1).hard_keep().any()
    probe.shift.fill_(2 * probe.config.bound)
    assert probe(states, 0).hard_keep().all() and probe(states, 1).hard_keep().all()


def closed_probe(model, bias):
    """A probe that votes as it starts, whatever it reads, with the last depth pushed toward closed."""
    torch.manual_seed(0)
    probe = make_probe(model.sites.names, [4, 4, 4], ProbeConfig(kind="hidden"))
    with torch.no_grad():
        torch.nn.init.normal_(probe.voter(2).last.weight, std=1.0)
        probe.voter(2).last.bias.fill_(bias)
    return probe


def test_a_model_is_measured_again_until_its_masks_hold_the_margin():
    model, task = evidence_model(), evidence_task(300)
    probe, objective = closed_probe(model, bias=-6.0), Objective(ObjectiveConfig(margin=0.1), 3)

    def scores():
        with model.frozen():
            return validate(model, task, probe, objective, iter([task.collate(task.validation)]))

    before = scores()
    assert before[0].divergence <= 0.1 < before[2].divergence
    calibrate(probe, scores, margin=0.1, undecided=0)
    after = scores()
    assert after[2].divergence <= 0.1 and after[2].kept > before[2].kept
    assert probe.shift[:2].tolist() == [0, 0] and probe.shift[2] > 0
    probe.shift[2] -= 1.01 * NEAR
    assert scores()[2].divergence > 0.1  # it was the least that holds


def test_a_calibrated_fit_holds_the_margin_at_every_depth_and_is_shifted_nowhere_else():
    config = small_recipe(steps=4, select=False, guard=False, start_open=0.3, calibrate=True)
    config = replace(config, objective=replace(config.objective, margin=0.02))
    fitted = fit(evidence_model(), evidence_task(120), config)
    assert fitted.feasible and (fitted.probe.shift > 0).any()


def test_calibrating_twice_is_calibrating_once():
    probe = small_probe()
    scores = scores_when(probe, [0.0, 3.3, 12.0])
    calibrate(probe, scores, margin=0.1, undecided=0)
    once = probe.shift.clone()
    calibrate(probe, scores, margin=0.1, undecided=0)
    assert torch.equal(probe.shift, once)


def test_asking_again_for_a_calibrated_fit_gives_the_same_probe(tmp_path):
    config = small_recipe(steps=4, guard=False, start_open=0.3, calibrate=True)
    config = replace(config, objective=replace(config.objective, margin=0.02))
    first, again = (fit(evidence_model(), evidence_task(120), config, directory=tmp_path) for _ in range(2))
    assert torch.equal(first.probe.shift, again.probe.shift) and again.feasible


def test_calibration_needs_a_margin():
    with pytest.raises(
        SettingError, match="calibrate shifts votes until a margin just holds: use it with form = margin"
    ):
        recipe(calibrate=True, form="rate")
