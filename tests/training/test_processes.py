"""Two processes with half of each batch, or half of the model too, find the probe that one finds with all of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator, dispatch_model

from diffmask.errors import SettingError
from diffmask.explaining.explain import explain
from diffmask.storage import load_tensors
from diffmask.training.fit import CHECKPOINT, fit
from diffmask.training.processes import Processes
from toys import Evidence, evidence_model, evidence_task, small_recipe

# A batch of 7 falls into parts of 4 and 3, and examples have different numbers of units.
SCRIPT = """
import gc, os, sys, torch
from accelerate import Accelerator
sys.path.insert(0, sys.argv[1])
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from toys import Evidence, evidence_model, evidence_task, small_recipe
from diffmask.explaining.explain import explain
from diffmask.training.fit import fit
torch.set_num_threads(1)
def fit_sharded():
    accelerator, model = Accelerator(), Evidence()
    mesh = init_device_mesh("cpu", (accelerator.num_processes,))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh)
    config = small_recipe(kind="input", cache="memory", steps=24, batch_size=34, validate_every=6)  # 100 examples in 3
    adapter = evidence_model(model)
    assert adapter.sharded and adapter.spread
    task = evidence_task(168)  # of which each process knows some, and not those that the other knows
    sharded = fit(adapter, task, config)
    assert sharded.fingerprint == evidence_model().fingerprint == adapter.fingerprint
    plain = fit(evidence_model(), task, config)
    for one, other in zip(plain.probe.parameters(), sharded.probe.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    for one, other in zip(explain(plain, range(4)), explain(sharded, range(4)), strict=True):
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-4, atol=1e-5)


for name, more in {"input": dict(kind="input", cache="memory"), "hidden": dict(gate="reinforce")}.items():
    config = small_recipe(**more, steps=24, batch_size=7, validate_every=6, depths_per_step=2)
    fitted = fit(evidence_model(), evidence_task(), config, directory=f"{sys.argv[2]}/{name}", progress=True)
if Accelerator().num_processes > 1:
    fit_sharded()
# In one piece: what two processes print in several is mixed.
os.write(1, f"processes {Accelerator().num_processes}\\n".encode())
# PyTorch aborts now and then at the very end of a process whose group outlives a sharded model.
gc.collect()
if torch.distributed.is_initialized():
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
gc.collect()
"""


def run(count: int, place: Path) -> str:
    """Run the fits on so many processes, and return what was drawn on the screen."""
    script = place / "script.py"
    script.write_text(SCRIPT)
    # Not `accelerate launch --cpu`, which starts one process, however many are asked for.
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]
    command = [sys.executable, *launch, str(script), str(Path(__file__).parents[1]), str(place)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"processes {count}"] * count
    return done.stderr


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path):
    places = {count: tmp_path / str(count) for count in (1, 2)}
    for count, place in places.items():
        place.mkdir()
        run(count, place)
    for name in ("input", "hidden"):
        (one, info), (two, same) = (
            load_tensors(place / name / CHECKPOINT, "fit checkpoint") for place in places.values()
        )
        assert one.keys() == two.keys()
        for key in one:
            torch.testing.assert_close(
                one[key], two[key], rtol=1e-4, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
            )
        assert same["progress"]["step"] == info["progress"]["step"]
        for before, after in zip(info["progress"]["history"], same["progress"]["history"], strict=True):
            torch.testing.assert_close(before, after, rtol=1e-3, atol=1e-4)


def alone(count=1, rank=0):
    processes = Processes(Accelerator(cpu=True))
    processes.count, processes.rank = count, rank
    return processes


def test_a_process_that_wrongly_believes_to_be_alone_is_told(monkeypatch):
    accelerator = Accelerator(cpu=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SettingError, match=r"one of 2 processes.*set ACCELERATE_USE_CPU=true"):
        Processes(accelerator)


def test_parts_are_as_equal_as_can_be_and_miss_nobody():
    parts = [alone(3, rank).part(11) for rank in range(3)]
    assert [(part.first, part.end) for part in parts] == [(0, 4), (4, 8), (8, 11)]
    assert alone().part(11) is None
    with pytest.raises(SettingError, match="a batch of 2 examples cannot be shared by 3 processes: raise batch_size"):
        alone(3).part(2)


def test_the_noise_of_parts_is_that_of_the_whole_batch():
    logits = torch.zeros(2, 11, 5)
    whole = torch.rand(2, 11, 5, generator=torch.Generator().manual_seed(3))
    for part in (alone(3, rank).part(11) for rank in range(3)):
        mine = part.uniform(logits[:, part.first : part.end], torch.Generator().manual_seed(3))
        assert torch.equal(mine, whole[:, part.first : part.end])


def test_a_model_that_accelerate_has_placed_is_fitted_and_explained_where_it_is():
    task, config = evidence_task(), small_recipe(steps=20)
    plain = fit(evidence_model(), task, config)
    placed = Evidence()
    dispatch_model(placed, device_map={"": "cpu"}, force_hooks=True)
    model = evidence_model(placed)
    assert model.spread and model.device == torch.device("cpu")
    forwards = [module.forward for module in placed.modules()]
    fitted = fit(model, task, config)
    assert [module.forward for module in placed.modules()] == forwards
    for one, other in zip(plain.probe.parameters(), fitted.probe.parameters(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(explain(plain, range(4)), explain(fitted, range(4)), strict=True):
        assert torch.equal(one.scores, other.scores)
