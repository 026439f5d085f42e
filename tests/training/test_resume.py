import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from diffmask.storage import load_tensors

SCRIPT = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from toys import evidence_model, evidence_task, small_recipe
from diffmask.training.fit import fit
torch.set_num_threads(1)
config = small_recipe(steps=600, checkpoint_every=7, validate_every=100)
fit(evidence_model(), evidence_task(), config, directory=sys.argv[2])
"""


def start(directory: Path) -> subprocess.Popen:
    tests = str(Path(__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, tests, str(directory)], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def kill_at_a_random_step(directory: Path) -> int:
    """Kill the fit once its checkpoint has passed a random step, and return the step it was at."""
    process, checkpoint = start(directory), directory / "checkpoint.safetensors"
    after = random.randrange(7, 400)
    while process.poll() is None:
        if checkpoint.exists() and load_tensors(checkpoint, "fit checkpoint")[1]["progress"]["step"] >= after:
            break
        time.sleep(0.01)
    assert process.poll() is None, "the fit ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    return load_tensors(checkpoint, "fit checkpoint")[1]["progress"]["step"]


@pytest.mark.slow
def test_a_fit_killed_at_a_random_step_and_resumed_ends_with_the_same_bits(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(whole).wait() == 0
    step = kill_at_a_random_step(broken)
    assert 0 < step < 600
    assert start(broken).wait() == 0
    one, _ = load_tensors(whole / "checkpoint.safetensors", "fit checkpoint")
    other, _ = load_tensors(broken / "checkpoint.safetensors", "fit checkpoint")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one), f"differs after a kill at step {step}"
