"""Sentiment (De Cao et al. 2020, §3.2): what a fine-tuned encoder needs to tell the sentiment of a sentence, by depth.

One encoder is fine-tuned on the five classes of the treebank. Probes are fitted to it on the training sentences,
calibrated on the dev sentences, and everything is reported on the test sentences.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError
from ..evaluation.scores import accuracy, macro_f1
from ..models.adapting import adapt
from ..storage import load_tensors, save_tensors
from ..tasks.sst import Sentence, read_sst
from ..tasks.text import TextClassification
from ..training.config import FitConfig, recipe
from ..training.fit import Fit, fit
from ..training.saved import load_fit, save_fit
from .probing import Certified, Probed, certify_examples, probe_examples
from .result import write_result
from .seeds import made_with, run_seeds
from .sentiment_figures import figures, prepare_tags
from .sentiment_summary import summarise
from .setup import News, Setup
from .spread import spread
from .trained import clock, device, load_classifier, train_classifier

MARGINS = (0.1, 0.5)  # the released code's margin, and the paper's
PROBED = "probed test sentences"


@dataclass(frozen=True)
class Job:
    """One probe to fit."""

    seed: int
    kind: str = "input"
    margin: float = MARGINS[0]
    change: str = ""  # what is different from our recipe

    @property
    def name(self) -> str:
        return "-".join(filter(None, [self.kind, str(self.margin), self.change, str(self.seed)]))


@dataclass(frozen=True)
class Size:
    """How much is trained and measured; the small one shows that everything runs."""

    epochs: int = 1
    input_steps: int = 1500
    hidden_steps: int = 1200
    ablation_steps: int = 200
    validation: int = 256
    reported: int = 1000
    sentences: int | None = None


FULL = Size()
SMALL = Size(input_steps=40, hidden_steps=40, ablation_steps=10, sentences=100)


def run(setup: Setup) -> News:
    """Fine-tune, fit every probe, and say so as each ends; last comes the result as written."""
    size, work = SMALL if setup.small else FULL, setup.work("sentiment")
    data = setup.find_data("sst")
    prepare_tags(read_sst(data, "test")[: size.reported][: size.sentences], work)  # at once, if the tagger is missing
    found = train_classifier(setup.find_encoder(), data, work / "model", size.epochs, size.sentences)
    jobs = plan(setup.seeds)
    yield len(jobs)
    yield f"fine-tuned: dev accuracy {found['dev_accuracy']:.3f}"
    done: dict[int, dict[str, Any]] = {}
    settings = repr((size, [job.name for job in jobs]))
    run_one = partial(run_job, jobs, size, data, work)
    for number, row in run_seeds(run_one, range(len(jobs)), work, settings, setup.jobs, setup.take_over, partial=True):
        done[number] = row
        yield f"{jobs[number].name}: masked {row['masked']:.3f}, divergence {row['divergence_max']:.3f}"
    rows = [row for number in sorted(done) for row in done[number]["rows"]]
    study = Sentiment(data, work, size)
    main = [jobs[number] for number in sorted(done) if is_main(jobs[number])]
    check_first(main)
    stability = {kind: study.spread([job for job in main if job.kind == kind]) for kind in KINDS}
    summary = {**summarise(rows, stability), "fit_seconds": fit_seconds(jobs, done)}
    more = {
        "margins": sorted({row["margin"] for row in rows}),
        "unfinished": [job.name for number, job in enumerate(jobs) if number not in done],
        "made_with": made_with(work, sorted(done)),
        "fine_tuned": found,
        "stability": stability,
        "figures": figures(study, jobs),
    }
    yield write_result(setup.output, "sentiment", setup.command, range(setup.seeds), summary, rows, **more)


KINDS = ("input", "hidden")


# What both kinds of probe need beside recipe("text"). Seeds agree where little is left to chance: a weighted sum has
# little to learn and nothing that a seed draws, and a low rate that falls from the first step on averages over noise
# and sentences. On inputs, gates that hardly matter stay undecided, and calibration chooses among them; of two
# members, what is left to chance goes down once more.
COMMON: dict[str, Any] = {"voter": "linear", "learning_rate": 7e-4, "decay": 1.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "input": {"batch_size": 32, "members": 2, "smooth": 0.1, "weight_decay": 2.0, "undecided": 2.0},
    "hidden": {"batch_size": 64},
}
# What is different from our recipe; each is one probe, and is to be set beside the one that differs in nothing else.
CHANGES: dict[str, dict[str, Any]] = {
    "": {},
    "network": {"voter": "standard"},
    "no-baseline": {"start": "zero", "learned": False, "positions": 0},
    "coupled": {"votes": "coupled"},
}


def plan(seeds: int) -> list[Job]:
    """List the probes of every seed at the first margin, and of one seed: at the other margin, and the ablations."""
    main = [Job(seed, kind) for seed in range(seeds) for kind in reversed(KINDS)]  # what takes longer goes first
    other = [Job(0, kind, MARGINS[1]) for kind in KINDS]
    ablations = [Job(0, kind, change=change) for change in ("no-baseline", "network") for kind in KINDS]
    return [*main, *other, *ablations, Job(0, "input", change="coupled")]


def is_main(job: Job) -> bool:
    return job.margin == MARGINS[0] and not job.change


def fit_seconds(jobs: Sequence[Job], done: Mapping[int, Mapping[str, Any]]) -> dict[str, float] | None:
    """Return how long the fits of a seed took, for the slowest seed, beside whatever else ran at the same time.

    Runs of older code, which did not look at the clock, have none.
    """
    main = [number for number in done if is_main(jobs[number])]
    if not all("fit_seconds" in done[number] for number in main):
        return None
    taken = {(jobs[number].seed, jobs[number].kind): float(done[number]["fit_seconds"]) for number in main}
    each = {kind: max(seconds for (_, k), seconds in taken.items() if k == kind) for kind in KINDS}
    return {**each, "both": max(sum(taken.get((seed, kind), 0.0) for kind in KINDS) for seed, _ in taken)}


def check_first(finished: Sequence[Job]) -> None:
    """Refuse to sum up without the first seed of each kind, which the figures show."""
    for job in (Job(0, kind) for kind in KINDS):
        if job not in finished:
            raise DataError(f"{job.name} is not finished, and the figures show it: finish it with --jobs 1")


def config(job: Job, size: Size) -> FitConfig:
    """Return the settings of a job."""
    steps = size.input_steps if job.kind == "input" else size.hidden_steps
    common = {**COMMON, "kind": job.kind, "margin": job.margin, "seed": job.seed, "validation_limit": size.validation}
    short = {"steps": steps, "validate_every": steps, "ablation_steps": size.ablation_steps}
    return recipe("text", **{**common, **short, **SETTINGS[job.kind], **CHANGES[job.change]})


def run_job(jobs: Sequence[Job], size: Size, data: Path, work: Path, number: int) -> dict[str, Any]:
    """Fit a probe, run it over the test sentences, and save what it said."""
    job, study = jobs[number], Sentiment(data, work, size)
    began = clock(device())
    fitted = fit(study.model, study.task, config(job, size), directory=work / job.name)
    seconds = clock(device()) - began
    save_fit(fitted, work / f"{job.name}.safetensors")
    shutil.rmtree(work / job.name)  # or other code would find it finished, and take it for its own
    study.model.model.to(device())
    fitted.probe.to(device())
    with study.model.computing(fitted.config.dtype):
        probed, certified = probe_examples(fitted, study.texts), certify_examples(fitted, study.texts)
    study.model.model.to("cpu")
    save_tensors(study.file(job), PROBED, {"probability": torch.cat(list(probed.probability), 1).half()}, {})
    rows = [{**asdict(job), **row} for row in depth_rows(fitted, probed, certified, study.labels)]
    return {
        "rows": rows,
        "masked": sum(row["certified_masked"] for row in rows) / len(rows),
        "divergence_max": max(row["certified_divergence"] for row in rows),
        "fit_seconds": seconds,
    }


def depth_rows(fitted: Fit, probed: Probed, certified: Certified, labels: Tensor) -> list[dict[str, Any]]:
    """Measure each depth's masks: what they mask, and what the model then says.

    One threshold makes the sets of all sentences; certified, each sentence has the smallest set of its order that was
    measured to keep its own prediction.
    """
    original = probed.original["label"]
    same = {"f1_original": macro_f1(original, labels), "accuracy_original": accuracy(original, labels)}
    return [
        {
            "depth": depth,
            "site": name,
            "masked": float(probed.share_masked[depth].mean()),
            "divergence": float(probed.divergence[depth].mean()),
            "agreement": float(probed.agreement[depth].mean()),
            "f1": macro_f1(probed.masked["label"][depth], labels),
            "accuracy": accuracy(probed.masked["label"][depth], labels),
            "certified_masked": float(certified.share_masked[depth].mean()),
            "certified_divergence": float(certified.divergence[depth].mean()),
            "certified_agreement": float((certified.decided["label"][depth] == original).float().mean()),
            "certified_f1": macro_f1(certified.decided["label"][depth], labels),
            "certified_accuracy": accuracy(certified.decided["label"][depth], labels),
            **same,
        }
        for depth, name in enumerate(fitted.probe.site_names)
    ]


class Sentiment:
    """The fine-tuned model with its data, and what the jobs left in the study's directory."""

    def __init__(self, data: Path, work: Path, size: Size) -> None:
        if torch.cuda.is_available():
            torch.set_float32_matmul_precision("high")  # TF32: 10 bits of mantissa are plenty beside the gates' noise
        self.work = work
        model, tokenizer = load_classifier(work / "model")
        self.model = adapt(model, tokenizer)
        splits = {name: read_sst(data, name)[: size.sentences] for name in ("train", "dev", "test")}
        train, dev = ([sentence.text for sentence in splits[name]] for name in ("train", "dev"))
        # Gates also read [CLS], where the prediction is made: a layer that knows the answer may use that it does.
        self.task = TextClassification(tokenizer, train, dev, ask="first")
        self.sentences: list[Sentence] = splits["test"][: size.reported]

    @property
    def texts(self) -> list[str]:
        return [sentence.text for sentence in self.sentences]

    @property
    def labels(self) -> Tensor:
        return torch.tensor([sentence.label for sentence in self.sentences])

    def file(self, job: Job) -> Path:
        return self.work / f"{job.name}-probed.safetensors"

    def probabilities(self, job: Job) -> Tensor:
        """Return how likely each unit of the test sentences, one after the other, is kept: (depth, unit)."""
        return load_tensors(self.file(job), PROBED)[0]["probability"].float()

    def spread(self, jobs: Sequence[Job]) -> dict[str, Any]:
        """Return how far the attributions of several seeds lie apart."""
        counts = [len(units) for units in self.task.units(self.texts)]
        return spread(torch.stack([self.probabilities(job) for job in jobs]), counts)

    def load(self, job: Job) -> Fit:
        """Read a fitted probe back."""
        return load_fit(self.work / f"{job.name}.safetensors", self.model, self.task)
