"""What the benchmarks say of memory: a figure for each device, and what the bytes are for."""

import gc
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.alive import most_bytes
from benchmarks.performance import summarise


def row(measure, ratio):
    return {"part": "memory", "model": "MiniLM", "measure": measure, "ratio": ratio}


def test_memory_has_a_figure_for_each_device_that_of_the_probe_that_needs_more():
    rows = {
        "cpu": [row("input", 0.4), row("hidden", 0.5), row("input, recomputed", 0.9), row("input: weights", 0.8)],
        "cuda": [row("input", 0.7), row("hidden", 0.6)],
    }
    found = summarise({device: {"parts": {"memory": some}} for device, some in rows.items()})
    assert found["memory_over_finetune"] == 0.5 and found["memory_over_finetune_gpu"] == 0.7


def test_a_device_that_was_not_measured_has_no_figure_from_the_other():
    found = summarise({"cuda": {"parts": {"memory": [row("input", 0.7)]}}})
    assert found["memory_over_finetune"] is None and found["memory_over_finetune_gpu"] == 0.7


def test_the_most_bytes_are_told_by_what_they_are_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    weights = torch.zeros(100)

    def run(name):
        name("kept")
        kept = weights + 1
        name("passing")
        passing = weights.repeat(3)
        assert passing is not None
        del passing
        gc.collect()
        name("later")
        later = weights.repeat(2)
        assert kept is not later

    found = most_bytes(run, {"weights": [weights]})
    assert found == {"weights": 400, "kept": 400, "passing": 1200} and found.total() == 2000
