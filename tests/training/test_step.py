import torch

from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.training.step import look, step
from toys import evidence_model, evidence_task

WIDTHS = [4, 4, 4]


def take_step(kind, depth):
    model, task = evidence_model(), evidence_task()
    probe = make_probe(model.sites.names, WIDTHS, ProbeConfig(kind=kind))
    objective = Objective(ObjectiveConfig(), probe.depth_count)
    batch = task.collate(task.train[:8])
    with model.frozen():
        seen = look(model, task, batch)
        loss = step(seen, probe, objective, depth, progress=0.5, generator=torch.Generator().manual_seed(0))
    return model, probe, loss


def test_a_step_runs_exactly_one_original_and_one_masked_pass():
    model, _, _ = take_step("input", depth=2)
    assert model.model.passes == 2
    assert [block.calls for block in model.model.blocks] == [2, 2]


def test_a_hidden_site_step_runs_no_block_up_to_its_site():
    model, _, _ = take_step("hidden", depth=1)  # masks the output of block 0
    assert [block.calls for block in model.model.blocks] == [1, 2]


def test_a_step_reaches_every_voter_that_decides_and_no_other():
    _, probe, loss = take_step("input", depth=1)
    loss.total.backward()
    moved = [voter.last.weight.grad is not None for voter in probe.voters]
    assert moved == [True, True, False]


def test_a_step_reaches_the_baseline_but_not_the_model():
    model, probe, loss = take_step("hidden", depth=2)
    loss.total.backward()
    assert probe.baseline(2).grad is not None
    assert all(parameter.grad is None for parameter in model.model.parameters())
