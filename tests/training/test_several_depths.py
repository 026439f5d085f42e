"""Several depths at once: one original pass, one masked pass where they mask the same site, and the same numbers."""

import pytest
import torch

from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.training import step as steps
from diffmask.training.fit import fit
from diffmask.training.random import draw_depths
from diffmask.training.step import look, step
from toys import evidence_model, evidence_task, small_recipe

WIDTHS = [4, 4, 4]


def looked(kind="input", **changes):
    """Return a look at some examples, and a probe that already has opinions."""
    torch.manual_seed(0)
    model, task = evidence_model(), evidence_task()
    probe = make_probe(model.sites.names, WIDTHS, ProbeConfig(kind=kind, **changes))
    for voter in probe.voters:
        torch.nn.init.normal_(voter.last.weight, std=0.5)
    with torch.no_grad():
        for vector in probe.baselines.vectors:
            vector.normal_()
    return look(model, task, task.collate(task.train[:8])), probe


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_the_masks_of_several_depths_predict_what_each_predicts_alone(kind):
    seen, probe = looked(kind)
    keeps = list(torch.rand(3, *seen.batch.valid.shape))
    with seen.model.frozen(), torch.no_grad():
        together = seen.masked_each(probe, range(3), keeps)
        alone = [seen.masked_by(probe, depth, keep) for depth, keep in enumerate(keeps)]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one["output"].raw, other["output"].raw)


@pytest.mark.parametrize(("kind", "passes", "calls"), [("input", 1, [1, 1]), ("hidden", 3, [1, 2])])
def test_depths_that_mask_the_same_site_share_one_pass(kind, passes, calls):
    seen, probe = looked(kind)
    model = seen.model.model
    before, ran = model.passes, [block.calls for block in model.blocks]
    with seen.model.frozen():
        seen.masked_each(probe, range(3), [seen.batch.valid] * 3)
    assert model.passes - before == passes
    assert [block.calls - runs for block, runs in zip(model.blocks, ran, strict=True)] == calls


@pytest.mark.parametrize(("copies", "passes"), [(1, 3), (2, 2), (3, 1)])
def test_a_pass_on_a_cpu_takes_as_many_copies_as_its_caches_hold(monkeypatch, copies, passes):
    seen, probe = looked()
    monkeypatch.setattr(steps, "CACHED", copies * seen.batch.valid.numel())
    keeps, before = list(torch.rand(3, *seen.batch.valid.shape)), seen.model.model.passes
    with seen.model.frozen(), torch.no_grad():
        together = seen.masked_each(probe, range(3), keeps)
        assert seen.model.model.passes - before == passes
        alone = [seen.masked_by(probe, depth, keep) for depth, keep in enumerate(keeps)]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one["output"].raw, other["output"].raw)


@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("votes", ["corrected", "separate", "coupled"])
def test_a_step_at_several_depths_weighs_each_as_a_step_of_its_own(kind, votes):
    seen, probe = looked(kind, votes=votes, gate="reinforce")

    def losses(depths):
        torch.manual_seed(0)
        objective = Objective(ObjectiveConfig(), 3)
        with seen.model.frozen():
            return step(
                seen, probe, objective, depths, progress=[0.5] * len(depths), generator=torch.Generator().manual_seed(0)
            )

    first = losses([0, 1, 2])[0]
    (alone,) = losses([0])  # later depths draw other noise
    torch.testing.assert_close(first.divergence, alone.divergence)
    torch.testing.assert_close(first.kept, alone.kept)
    assert len(losses([0, 2])) == 2


@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("depths", [[0, 1, 2], [0, 2]])
@pytest.mark.parametrize("progress", [0.5, None])
def test_depths_weighed_together_learn_what_they_learn_one_after_the_other(kind, depths, progress, monkeypatch):
    seen, probe = looked(kind)
    shares = [0.1 * depth for depth in depths] if progress is None else [progress] * len(depths)

    def learned():
        objective = Objective(ObjectiveConfig(smooth=0.1, tighten=0.9), 3)
        objective.start.copy_(torch.tensor([3.0, 2.0, 1.0]))
        probe.zero_grad()
        with seen.model.frozen():
            losses = step(seen, probe, objective, depths, progress=shares, generator=torch.Generator().manual_seed(0))
            torch.stack([loss.total for loss in losses]).sum().backward()
        terms = [term.detach() for loss in losses for term in (loss.total, loss.divergence, loss.kept)]
        gradients = [parameter.grad.clone() for parameter in probe.parameters() if parameter.grad is not None]
        return [*terms, objective.dual.multiplier, objective.dual.smoothed, *gradients]

    together = learned()
    monkeypatch.setattr(steps, "together", lambda votes: None)
    for one, other in zip(together, learned(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_fit_of_all_depths_at_every_step_trains_each_of_them():
    settings = {"kind": "input", "steps": 6, "guard": False, "select": False}
    fitted = fit(evidence_model(), evidence_task(150), small_recipe(**settings, depths_per_step=0))
    assert all(bool((voter.last.weight != 0).any()) for voter in fitted.probe.voters)


def test_a_step_of_all_depths_costs_one_original_and_one_masked_pass():
    seen, probe = looked("input")
    model = seen.model.model
    before = model.passes
    with seen.model.frozen():
        seen = look(seen.model, seen.task, seen.batch)
        step(seen, probe, Objective(ObjectiveConfig(), 3), [0, 1, 2], progress=[0.5] * 3, generator=torch.Generator())
    assert model.passes - before == 2


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_depth_is_drawn_equally_often(count):
    depths = [0, 1, 2, 3, 4, 5]
    drawn = [draw_depths(depths, count, seed=1, number=number) for number in range(60)]
    if 6 % count == 0:  # rounds and steps end together
        assert all(len(some) == count for some in drawn)
        assert {sum(depth in some for some in drawn) for depth in depths} == {10 * count}
    assert all(some == sorted(set(some)) and 0 < len(some) <= count for some in drawn)


@pytest.mark.parametrize("count", [0, 3, 7])
def test_as_many_depths_as_there_are_is_all_of_them(count):
    assert draw_depths([1, 4, 5], count, seed=0, number=3) == [1, 4, 5]


def test_each_depth_is_held_to_the_constraint_it_has_come_to():
    model, task = evidence_model(), evidence_task()
    probe = make_probe(model.sites.names, [4, 4, 4], ProbeConfig(kind="hidden"))

    def total(progress):
        objective = Objective(ObjectiveConfig(tighten=0.5, dual="published"), 3)  # whose first price is not 0
        objective.start.fill_(50.0)  # far above the margin, so that how far a depth has come matters
        with model.frozen():
            seen = look(model, task, task.collate(task.train[:8]))
            draw = torch.Generator().manual_seed(0)
            return [
                float(loss.total.detach())
                for loss in step(seen, probe, objective, [0, 1], progress=progress, generator=draw)
            ]

    late, early = total([0.5, 0.0]), total([0.0, 0.0])
    assert late[0] != early[0] and late[1] == early[1]
