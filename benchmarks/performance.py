"""What diffmask costs, all of it as ratios taken within one run on one machine.

    python -m benchmarks.performance                   # this machine's CPU, into results/performance.json
    python -m benchmarks.performance --device cuda --output somewhere/performance.json
    python -m benchmarks.performance --merge somewhere/performance.json     # brings what a GPU measured in here

What was measured on the other device, and what was not measured this time, stays in the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from diffmask.errors import DataError
from diffmask.provenance import commit, hardware, versions
from diffmask.report.fill import read_result
from diffmask.studies.result import write_result

from . import bulk_slot, explaining, fitting, growth, treebank

OUTPUT = Path("results/performance.json")
PARTS: dict[str, Callable[[str, int], list[dict[str, Any]]]] = {
    "explain": explaining.measure,
    "rivals": lambda device, _: explaining.rivals(device),
    "recorded": lambda device, _: explaining.alike(device),
    "steps": fitting.steps,
    "memory": lambda device, _: fitting.memory(device),
    "fit": lambda device, _: [treebank.whole_fit(device, 1 if device == "cuda" else 20)],
    "growth": lambda device, _: growth.measure(device),
    "bulk": lambda device, _: bulk_slot.measure(device),
}


def summarise(devices: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return one figure per bar; where both devices measured it, the CPU's, and the GPU's stands in its rows.

    Explaining and memory have a figure for each device; of both kinds of probe, the larger memory counts.
    """
    found: dict[str, Any] = {}
    for device in ("cuda", "cpu"):  # the later one wins
        rows = [row for part in devices.get(device, {}).get("parts", {}).values() for row in part]
        found |= fitting.step_summary(rows)
        for row in rows:
            key = _figure(row, device)
            if key is not None:
                found[key] = max(found[key], row["ratio"]) if row["part"] == "memory" and key in found else row["ratio"]
    return {name: found.get(name) for name in NAMES}


NAMES = (
    *("explain_over_forward_cpu", "explain_over_forward_gpu", "ig_over_explain", "loo_over_explain"),
    *("shap_over_explain", "input_step", "input_step_cached", "hidden_step", "hidden_step_cached"),
    *("memory_over_finetune", "memory_over_finetune_gpu", "fit_speedup", "bulk_over_local"),
)
RIVALS = {"integrated": "ig_over_explain", "leave": "loo_over_explain", "KernelSHAP": "shap_over_explain"}


def _figure(row: dict[str, Any], device: str) -> str | None:
    """Return the name of the bar a row answers, if it answers one."""
    part, measure = row["part"], row["measure"]
    if part == "explain" and row["model"] == "MiniLM" and measure == "explain":
        return f"explain_over_forward_{'gpu' if device == 'cuda' else 'cpu'}"
    if part == "rival":
        return next(name for start, name in RIVALS.items() if measure.startswith(start))
    if part == "memory" and measure in ("input", "hidden"):
        return f"memory_over_finetune{'_gpu' if device == 'cuda' else ''}"
    return {"whole fit": "fit_speedup", "bulk": "bulk_over_local"}.get(part)


def write(path: Path, devices: dict[str, dict[str, Any]]) -> None:
    """Write what was measured on each device into one file."""
    rows = [
        {"device": device, **row}
        for device, found in devices.items()
        for part in found["parts"].values()
        for row in part
    ]
    command = "python -m benchmarks.performance"
    write_result(path, "performance", command, [0], summarise(devices), rows, devices=devices)


def read(path: Path) -> dict[str, dict[str, Any]]:
    return json.loads(path.read_text())["devices"] if path.is_file() else {}


def take_over(devices: dict[str, dict[str, Any]], path: Path) -> None:
    """Add what another file has, part by part: what it has not measured stays."""
    result = read_result(path)
    if result["study"] != "performance":
        raise DataError(f"{path} is of the study '{result['study']}': give what benchmarks.performance wrote")
    for device, found in read(path).items():
        add(devices, device, found)


def add(devices: dict[str, dict[str, Any]], device: str, found: dict[str, dict[str, Any]]) -> None:
    """Put parts, and what they were made with, in the place of those that were there."""
    for kind, parts in found.items():
        devices.setdefault(device, {}).setdefault(kind, {}).update(parts)


def measure(device: str, part: str, repeats: int) -> dict[str, dict[str, Any]]:
    """Measure a part, and say with what: parts may be measured again one by one."""
    made_with = {"commit": commit(), "versions": versions(), "hardware": hardware()}
    rows = PARTS[part](device, repeats)
    for row in rows:
        print(f"{row['part']:>10}  {row['model']:>8}  {row['measure']:<50} {row['ratio']:.3f}", flush=True)
    return {"parts": {part: rows}, "made_with": {part: made_with}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--merge", type=Path, help="measure nothing, and take over what another file has")
    given = parser.parse_args()
    devices = read(given.output)
    if given.merge is not None:
        try:
            take_over(devices, given.merge)
        except DataError as error:
            parser.error(f"--merge: {error}")
        write(given.output, devices)
        return
    if len(given.parts) > 1:
        for name in given.parts:
            apart(name, given)
        return
    (name,) = given.parts
    add(devices, given.device, measure(given.device, name, given.repeats))
    write(given.output, devices)


def apart(name: str, given: argparse.Namespace) -> None:
    """Measure a part in a process of its own: what another left in the memory of the host would make it slower."""
    words = ["--device", given.device, "--parts", name, "--repeats", str(given.repeats), "--output", str(given.output)]
    subprocess.run([sys.executable, "-m", "benchmarks.performance", *words], check=True)


if __name__ == "__main__":
    main()
