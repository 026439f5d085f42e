"""The benchmark of the first explanation reads import times rightly, and explaining imports only what it needs."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cold_start import by_package, ours, parse, summarise

REPORT = """
import time: self [us] | cumulative | imported package
import time:       100 |        100 |     numpy
import time:       200 |        300 |   torch
import time:        50 |         50 |   rich.text
import time:        70 |        420 | diffmask.types
import time:        10 |         10 |   torch.nn
import time:        30 |         40 | diffmask.cli
"""


def test_what_torch_imports_is_not_ours():
    assert [each.name for each in ours(parse(REPORT))] == ["diffmask.cli", "diffmask.types", "rich.text"]
    found = by_package(parse(REPORT))
    assert {name: round(seconds * 1e6) for name, seconds in found.items()} == {"diffmask": 100, "rich": 50}


def test_medians_are_held_against_the_limits():
    assert summarise([1.0, 9.0, 2.0], [{"diffmask": 0.1, "rich": 0.1}])["within_limits"]
    assert not summarise([7.0], [{"diffmask": 0.1}])["within_limits"]
    assert not summarise([1.0], [{"diffmask": 0.6}])["within_limits"]


def test_explaining_imports_neither_the_trainer_nor_plots():
    code = "import sys, diffmask; diffmask.from_pretrained('embedded'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120).stdout.split()
    assert "diffmask.training.fit" in loaded
    assert not set(loaded) & {"matplotlib", "captum", "diffmask.training.trainer", "diffmask.studies"}
