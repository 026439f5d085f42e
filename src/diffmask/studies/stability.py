"""Do seeds agree? Probes of the embedded model, alone and in committees, and how far their attributions lie apart.

Every committee is made of probes of its own, as `fit` with `members` makes it; all sizes are measured on as many
committees. Fits are short, so that two CPU cores do all of them in half an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..explaining.embedded import KINDS, embedded_model, embedded_task
from ..storage import load_tensors, save_tensors
from ..tasks.sst import binary_sentences, read_sst
from ..training.committee import together
from ..training.config import FitConfig, recipe
from ..training.fit import Fit, fit
from ..training.saved import load_fit, save_fit
from .embedded_model import split
from .probing import probe_examples
from .result import write_result
from .seeds import made_with, run_seeds
from .setup import News, Setup

SIZES = (1, 2, 4)  # members of a committee
PROBED = "probed dev sentences"
# High up in the model many states say the same: with a price on deciding, thresholds would leave them all half open.
SETTINGS: dict[str, dict[str, Any]] = {
    "input": {"smooth": 0.1, "weight_decay": 2.0, "undecided": 2.0},
    "hidden": {"smooth": 0.0, "hold": 0.0},
}


@dataclass(frozen=True)
class Size:
    """How long probes are trained and on how much they are measured."""

    steps: int = 400
    ablation_steps: int = 60
    validation: int = 512
    sentences: int | None = None


FULL, SMALL = Size(), Size(steps=10, ablation_steps=2, validation=40, sentences=60)


def run(setup: Setup) -> News:
    """Fit every probe, let committees of each size decide, and compare those of a size with each other."""
    size, work, data = SMALL if setup.small else FULL, setup.work("stability"), setup.find_data("sst")
    jobs = [(kind, seed) for kind in KINDS for seed in range(setup.seeds * max(SIZES))]
    committees = [(kind, members, seed) for kind in KINDS for members in SIZES for seed in range(setup.seeds)]
    yield len(jobs) + len(committees)
    run_one, made = partial(fit_one, jobs, size, data, work), repr((size, jobs))
    for number, found in run_seeds(run_one, range(len(jobs)), work / "probes", made, setup.jobs, setup.take_over):
        kind, seed = jobs[number]
        yield f"{kind} probe of seed {seed}: kept {found['kept']:.3f}"
    rows, measure = list[dict[str, Any]](), partial(measure_one, committees, size, data, work)
    made = repr((size, committees))
    for number, found in run_seeds(measure, range(len(committees)), work, made, setup.jobs, setup.take_over):
        kind, members, seed = committees[number]
        rows += found["rows"]
        yield f"{kind}, committee {seed} of {members}: masked {found['rows'][-1]['masked']:.3f}"
    rows.sort(key=lambda row: (KINDS.index(row["kind"]), row["members"], row["seed"], row["depth"]))
    summary = summarise(rows, spreads(committees, work))
    more = {"made_with": made_with(work, len(committees))}
    yield write_result(setup.output, "stability", setup.command, range(setup.seeds), summary, rows, **more)


def config(kind: str, size: Size, seed: int, members: int = 1) -> FitConfig:
    """Return the settings of one committee, with voters as small as the embedded model."""
    short = {"steps": size.steps, "ablation_steps": size.ablation_steps, "validation_limit": size.validation}
    small = {"hidden": 64, "positions": 64, "members": members}
    return recipe("text", kind=kind, margin=0.1, seed=seed, **short, **small, **SETTINGS[kind])


def fit_one(jobs: Sequence[tuple[str, int]], size: Size, data: Path, work: Path, number: int) -> dict[str, Any]:
    """Fit one probe and keep it."""
    (kind, seed), (model, task) = jobs[number], subject(data, size)
    fitted = fit(model, task, config(kind, size, seed))
    save_fit(fitted, work / f"{kind}-{seed}.safetensors")
    return {"kept": fitted.scores[-1].kept}


def subject(data: Path, size: Size) -> tuple[Any, Any]:
    """Return the embedded model and its task, with the sentences its probes are fitted and calibrated on."""
    model, tokenizer = embedded_model()
    parts = ([text for text, _ in binary_sentences(part)][: size.sentences] for part in split(read_sst(data, "train")))
    return model, embedded_task(model, tokenizer, *parts)


def measure_one(
    committees: Sequence[tuple[str, int, int]], size: Size, data: Path, work: Path, number: int
) -> dict[str, Any]:
    """Let the probes of one committee decide together about the dev sentences."""
    (kind, members, seed), (model, task) = committees[number], subject(data, size)
    fits = [load_fit(work / f"{kind}-{seed * members + n}.safetensors", model, task) for n in range(members)]
    fitted: Fit = fits[0] if members == 1 else together(fits, config(kind, size, seed, members))
    texts = [text for text, _ in binary_sentences(read_sst(data, "dev"))][: size.sentences]
    probed = probe_examples(fitted, texts)
    save_tensors(_file(work, committees[number]), PROBED, {"probability": torch.cat(list(probed.probability), 1)}, {})
    rows = [
        {
            **{"kind": kind, "members": members, "seed": seed, "depth": depth, "site": site},
            "masked": float(probed.share_masked[depth].mean()),
            "divergence": float(probed.divergence[depth].mean()),
            "agreement": float(probed.agreement[depth].mean()),
        }
        for depth, site in enumerate(fitted.probe.site_names)
    ]
    return {"rows": rows}


def spreads(committees: Sequence[tuple[str, int, int]], work: Path) -> dict[str, dict[int, float]]:
    """Return the standard deviation of attributions over committees of one size, on average over units and depths."""
    found: dict[str, dict[int, float]] = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for members in SIZES:
            some = [each for each in committees if each[:2] == (kind, members)]
            said = [load_tensors(_file(work, each), PROBED)[0]["probability"] for each in some]
            found[kind][members] = float(torch.stack(said).std(0).mean()) if len(said) > 1 else 0.0
    return found


def summarise(
    rows: Sequence[Mapping[str, Any]], spread: Mapping[str, Mapping[int, float]]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return, for each kind and size, how far seeds lie apart, and the means of what they mask and change."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for kind, sizes in spread.items():
        for members, std in sizes.items():
            some = [row for row in rows if (row["kind"], row["members"]) == (kind, members)]
            means = {key: sum(row[key] for row in some) / len(some) for key in ("masked", "divergence", "agreement")}
            found.setdefault(kind, {})[str(members)] = {"std": std, **means}
    return found


def _file(work: Path, committee: tuple[str, int, int]) -> Path:
    kind, members, seed = committee
    return work / f"{kind}-{seed}-of-{members}-probed.safetensors"
