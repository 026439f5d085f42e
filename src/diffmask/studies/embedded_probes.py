"""Make what ships with the package: train the sentiment classifier, fit both probes to it, and measure all three.

Probes are fitted on the sentences the classifier was trained on, calibrated on those that chose its epoch, and
reported on the dev sentences, which neither has seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..evaluation.scores import accuracy as share_right
from ..explaining.embedded import KINDS, embedded_model, embedded_task
from ..storage import write_file
from ..tasks.sst import binary_sentences, read_sst
from ..training.config import FitConfig, recipe
from ..training.fit import fit
from ..training.saved import save_fit
from .embedded_model import FILES, split, train_sentiment_model
from .probing import probe_examples
from .result import write_result
from .seeds import made_with, run_seeds
from .setup import News, Setup

MARGIN = 0.1
FIGURES = "trained.json"


@dataclass(frozen=True)
class Size:
    """How long the probes are trained; the small one shows that everything runs."""

    steps: int = 1500
    ablation_steps: int = 200
    sentences: int | None = None


FULL, SMALL = Size(), Size(steps=20, ablation_steps=5, sentences=60)


def run(setup: Setup) -> News:
    """Train the model, fit its probes, and write them with their model card; last comes the result as written."""
    size, work, data = SMALL if setup.small else FULL, setup.work("embedded-model"), setup.find_data("sst")
    trained = train_once(data, work, setup.find_encoder())
    yield len(KINDS)
    done = {}
    run_one = partial(fit_one, size, data, work)
    for number, found in run_seeds(run_one, range(len(KINDS)), work, repr(size), setup.jobs, setup.take_over):
        done[number] = found
        yield f"{KINDS[number]} probe: masked {found['masked']:.3f}, divergence {found['divergence']:.3f}"
    rows = [row for number in sorted(done) for row in done[number]["rows"]]
    summary = {
        "accuracy": trained["dev_accuracy"],
        "megabytes": sum((work / name).stat().st_size for name in shipped()) / 1e6,
        "input_masked": done[0]["masked"],
        "kl": done[0]["divergence"],
        "hidden_masked": done[1]["masked"],
        "hidden_kl": done[1]["divergence"],
        "fit_minutes": max(found["minutes"] for found in done.values()),
    }
    write_file(work / "README.md", card(trained, summary).encode())
    more = {"margin": MARGIN, "trained": trained, "made_with": made_with(work, len(KINDS))}
    yield write_result(setup.output, "embedded-model", setup.command, [0], summary, rows, **more)


def shipped() -> list[str]:
    """Name the files that go into the package."""
    return [*FILES, *(f"probe-{kind}.safetensors" for kind in KINDS)]


def train_once(data: Path, work: Path, encoder: Path) -> dict[str, Any]:
    """Train the classifier unless that is done, and return what was measured."""
    if not (work / FIGURES).is_file():
        write_file(work / FIGURES, json.dumps(train_sentiment_model(data, work, 0, encoder)).encode())
    return dict(json.loads((work / FIGURES).read_text()))


def config(kind: str, size: Size) -> FitConfig:
    """Return the settings of a probe: the text recipe, with voters small enough to ship."""
    small = {"hidden": 64, "positions": 64}
    return recipe("text", kind=kind, margin=MARGIN, steps=size.steps, ablation_steps=size.ablation_steps, **small)


def fit_one(size: Size, data: Path, work: Path, number: int) -> dict[str, Any]:
    """Fit the probe of one kind and measure it on the dev sentences."""
    began, kind = time.perf_counter(), KINDS[number]
    model, tokenizer = embedded_model(work)
    train, held = (
        [text for text, _ in binary_sentences(part)][: size.sentences] for part in split(read_sst(data, "train"))
    )
    fitted = fit(model, embedded_task(model, tokenizer, train, held), config(kind, size))
    save_fit(fitted, work / f"probe-{kind}.safetensors")
    minutes = (time.perf_counter() - began) / 60
    rows = measure(fitted, data, size)
    last = rows[-1]
    return {"rows": rows, "masked": last["masked"], "divergence": last["divergence"], "minutes": minutes}


def measure(fitted: Any, data: Path, size: Size) -> list[dict[str, Any]]:
    """Measure the thresholded masks of every depth on the dev sentences."""
    texts, labels = zip(*binary_sentences(read_sst(data, "dev"))[: size.sentences], strict=True)
    probed, right = probe_examples(fitted, list(texts)), torch.tensor(labels)
    return [
        {
            "kind": fitted.config.probe.kind,
            "depth": depth,
            "site": site,
            "masked": float(probed.share_masked[depth].mean()),
            "divergence": float(probed.divergence[depth].mean()),
            "agreement": float(probed.agreement[depth].mean()),
            "accuracy": share_right(probed.masked["label"][depth], right),
            "accuracy_original": share_right(probed.original["label"], right),
        }
        for depth, site in enumerate(fitted.probe.site_names)
    ]


def card(trained: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Write the model card from what was measured."""
    return f"""---
license: mit
language: en
library_name: diffmask
base_model: all-MiniLM-L6-v2 (word embeddings only)
---
# The sentiment classifier that ships with diffmask

A BERT of 2 layers × 128 with 8 000 lower-cased word pieces of its own, which tells negative from positive film reviews,
and two DiffMask probes for it: `probe-input` masks word embeddings, `probe-hidden` masks hidden states. It is here so
that the first command works without a download. It is no better at sentiment than its size; do not build on it.

**How it was made.** `make embedded` runs `diffmask study embedded-model`: the word pieces are learned from the training
sentences of the Stanford Sentiment Treebank (Socher et al. 2013), the word embeddings start from the main components of
those of all-MiniLM-L6-v2 (Apache-2.0), and the classifier is trained on the treebank's phrases that are not neutral,
with a tenth of the sentences held out to choose the epoch. The probes are fitted on the training sentences, calibrated
on the held-out ones and measured on the dev sentences. Everything is drawn from seed 0.

**What was measured** (re-loaded from these files): accuracy {trained["dev_accuracy"]:.4f} on the 872 binary dev
sentences, {trained["test_accuracy"]:.4f} on the 1 821 test sentences; {summary["megabytes"]:.1f} MB with both probes.
At the last depth the input probe masks {summary["input_masked"]:.1%} of the tokens at a mean divergence of
{summary["kl"]:.3f} nats (margin {MARGIN}); the hidden probe masks {summary["hidden_masked"]:.1%} of the states at
{summary["hidden_kl"]:.3f} nats.

**Limits.** English film reviews of one sentence; texts beyond 128 word pieces are cut with a warning. Several recipes
were compared while dev accuracy was visible, so the figure on dev is somewhat optimistic.
"""
