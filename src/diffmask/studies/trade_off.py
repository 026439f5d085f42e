"""What sparsity costs: the probes of the sentiment study with their votes shifted, from cautious to bold.

At every shift the thresholded masks drop another share of the units; divergence and macro-F1 are measured beside it, on
the test sentences. It needs the finished sentiment study in `runs/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ..errors import DataError
from ..evaluation.scores import macro_f1
from ..training.fit import Fit
from .probing import probe_examples
from .result import write_result
from .seeds import made_with, run_seeds
from .sentiment import FULL, KINDS, SMALL, Job, Sentiment
from .setup import News, Setup
from .trained import device

SHIFTS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # added to the log-odds of being kept, after calibration
POINT = 1.0  # of macro-F1


def run(setup: Setup) -> News:
    """Measure the probe of the first seed of each kind at its middle and its last depth."""
    work = setup.work("sentiment")
    missing = [job.name for job in map(partial(Job, 0), KINDS) if not (work / f"{job.name}.safetensors").is_file()]
    if missing:
        raise DataError(f"{work} has no probe {missing[0]}: run `diffmask study sentiment` first")
    size, data = SMALL if setup.small else FULL, setup.find_data("sst")
    yield len(KINDS)
    rows, kept = [], setup.work("trade-off")
    run_one = partial(run_kind, Sentiment(data, work, size))
    for number, found in run_seeds(run_one, range(len(KINDS)), kept, repr(size), 1, setup.take_over):
        rows += found["rows"]
        yield f"{KINDS[number]} probe measured"
    more = {"made_with": made_with(kept, len(KINDS))}
    yield write_result(setup.output, "trade-off", setup.command, [0], summarise(rows), rows, **more)


def run_kind(study: Sentiment, number: int) -> dict[str, Any]:
    """Shift one probe's votes and measure what its masks then cost."""
    fitted = study.load(Job(0, KINDS[number]))
    fitted.model.model.to(device())
    fitted.probe.to(device())
    calibrated, rows = fitted.probe.shift.clone(), []
    for shift in SHIFTS:
        with torch.no_grad():
            fitted.probe.shift.copy_(calibrated + shift)
        rows += measured(fitted, study, shift)
    return {"rows": [{"kind": KINDS[number], **row} for row in rows]}


def measured(fitted: Fit, study: Sentiment, shift: float) -> list[dict[str, Any]]:
    """Measure the masks of the middle and the last depth at one shift."""
    last = fitted.probe.depth_count - 1
    probed = probe_examples(fitted, study.texts, depths=[last // 2, last])
    before = macro_f1(probed.original["label"], study.labels)
    return [
        {
            "depth": depth,
            "site": fitted.probe.site_names[depth],
            "shift": shift,
            "masked": float(probed.share_masked[place].mean()),
            "divergence": float(probed.divergence[place].mean()),
            "agreement": float(probed.agreement[place].mean()),
            "f1_drop": 100 * (before - macro_f1(probed.masked["label"][place], study.labels)),
        }
        for place, depth in enumerate((last // 2, last))
    ]


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Say how much each probe drops at each depth while macro-F1 stays within a point of the model's own."""
    found: dict[str, Any] = {}
    for kind, depth in sorted({(row["kind"], row["depth"]) for row in rows}):
        within = [row for row in rows if (row["kind"], row["depth"]) == (kind, depth) and row["f1_drop"] <= POINT]
        best = max(within, key=lambda row: row["masked"], default=None)
        found[f"{kind}_{depth}_masked_within_a_point"] = best and best["masked"]
        found[f"{kind}_{depth}_divergence_within_a_point"] = best and best["divergence"]
    return found
