"""Question answering (De Cao et al. 2020, §3.3): what a span model needs of question and passage, by depth.

SQuAD's training set cannot be had here, so its dev set is split by article: the model and its probes are trained on one
part, the probes calibrated and everything reported on the questions of other articles (two halves of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..models.adapting import adapt
from ..tasks.squad import Answered, read_squad, split_by_article
from ..tasks.text import SpanAnswer
from ..training.config import FitConfig, recipe
from ..training.fit import Fit, fit
from .probing import Certified, Probed, certify_examples, probe_examples
from .question_answering_figures import examples, kept_by_part, part_curves, prepare_tags
from .question_answering_model import load_span_model, token_span, train_span_model
from .result import write_result
from .seeds import check_own, made_with, run_seeds
from .setup import News, Setup
from .trained import device

MARGIN, MAX_LENGTH, HELD_OUT = 1.0, 384, 12  # nats of start plus end, as published; tokens; articles
AROUND = 5  # tokens on each side of its own that a gate of kind "around" reads too
KINDS = {"input": "input_", "hidden": "", "around": "around_"}  # of probes, with the prefix of their figures
FILE = "dev-v1.1.rebuilt.json.gz"


@dataclass(frozen=True)
class Size:
    """How much is trained and measured; the small one shows that everything runs."""

    epochs: int = 3
    input_steps: int = 800
    hidden_steps: int = 500
    ablation_steps: int = 100
    questions: int | None = None
    reported: int = 1000


FULL, SMALL = Size(), Size(epochs=1, input_steps=20, hidden_steps=20, ablation_steps=5, questions=200, reported=50)


@dataclass(frozen=True)
class Job:
    """One probe to fit: of inputs, whose gates read their own token, or those around it too, or of hidden states."""

    seed: int
    kind: str


def run(setup: Setup) -> News:
    """Fine-tune a span model, fit its probes, and say so as each ends; last comes the result as written."""
    size, work = SMALL if setup.small else FULL, setup.work("question-answering")
    path = setup.find_data("squad") / FILE
    prepare_tags(reported(path, size), work)  # at once, if the tagger is missing
    found = train_span_model(setup.find_encoder(), *training_questions(path, size), work / "model", size.epochs)
    jobs = [Job(seed, kind) for kind in KINDS for seed in range(setup.seeds)]
    yield len(jobs)
    yield f"fine-tuned: exact start and end {found['exact']:.3f}"
    done: dict[int, dict[str, Any]] = {}
    run_one = partial(run_job, jobs, size, path, work)
    for number, row in run_seeds(run_one, range(len(jobs)), work, repr((size, jobs)), setup.jobs, setup.take_over):
        check_own(work, number, Job(row["rows"][0]["seed"], row["rows"][0]["kind"]), jobs[number])
        done[number] = row
        last = row["rows"][-1]
        kept = last["predictions_kept"]
        yield f"{jobs[number]}: passage masked {last['passage_masked']:.3f}, predictions kept {kept:.3f}"
    rows = [row for number in sorted(done) for row in done[number]["rows"]]
    figures = {jobs[number].kind: done[number]["figures"] for number in sorted(done, reverse=True)}
    more = {"margin": MARGIN, "made_with": made_with(work, len(jobs)), "fine_tuned": found, "figures": figures}
    yield write_result(
        setup.output, "question-answering", setup.command, range(setup.seeds), summarise(rows), rows, **more
    )


def questions(path: Path, size: Size) -> tuple[list[Answered], list[Answered]]:
    """Return the certain questions of the training articles and of the others."""
    return split_by_article(read_squad(path)[: size.questions], HELD_OUT if size.questions is None else 1)


def training_questions(path: Path, size: Size) -> tuple[list[Answered], list[Answered]]:
    train, other = questions(path, size)
    return train, other[::2]


def reported(path: Path, size: Size) -> list[Answered]:
    """Return the questions that are reported: every second one of the held-out articles."""
    return questions(path, size)[1][1::2][: size.reported]


def config(job: Job, size: Size) -> FitConfig:
    """Return the settings of a job."""
    kind, steps = ("hidden", size.hidden_steps) if job.kind == "hidden" else ("input", size.input_steps)
    common = {"kind": kind, "margin": MARGIN, "steps": steps, "seed": job.seed, "batch_size": 16}
    return recipe("text", **common, smooth=0.0, ablation_steps=size.ablation_steps, validation_limit=400)


def run_job(jobs: Sequence[Job], size: Size, path: Path, work: Path, number: int) -> dict[str, Any]:
    """Fit one probe and run it over the reported questions."""
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # TF32: 10 bits of mantissa are plenty beside the gates' noise
    job, (train, check), shown = jobs[number], training_questions(path, size), reported(path, size)
    model, tokenizer = load_span_model(work / "model", MAX_LENGTH)
    around = AROUND if job.kind == "around" else 0
    task = SpanAnswer(tokenizer, [q.pair for q in train], [q.pair for q in check], around=around)
    shown = [q for q in shown if len(task.encoded(q.pair).place) < MAX_LENGTH]  # with their whole passage
    fitted = fit(adapt(model, tokenizer), task, config(job, size))
    fitted.model.model.to(device())
    fitted.probe.to(device())
    pairs = [q.pair for q in shown]
    probed, certified = probe_examples(fitted, pairs, 32), certify_examples(fitted, pairs, 32)
    gold = torch.tensor([token_span(tokenizer, q, MAX_LENGTH) for q in shown])
    right = ((probed.original["start"] == gold[:, 0]) & (probed.original["end"] == gold[:, 1])).float()
    rows = [{**asdict(job), **row} for row in depth_rows(fitted, probed, certified, tokenizer, shown, gold, right)]
    figures = {
        "kept_layers_by_part_of_speech": kept_by_part(probed, tokenizer, shown, prepare_tags(shown, work)),
        "examples": examples(probed, tokenizer, shown, gold),
        "sites": fitted.probe.site_names,
    }
    return {"rows": rows, "figures": figures}


def depth_rows(
    fitted: Fit,
    probed: Probed,
    certified: Certified,
    tokenizer: Any,
    shown: Sequence[Answered],
    gold: Tensor,
    right: Tensor,
) -> list[dict[str, Any]]:
    """Measure each depth: what is masked of question and passage, and whether the prediction stays.

    Certified, each question keeps as few tokens as hold its own margin and its own answer.
    """
    curves = part_curves(probed, certified, tokenizer, shown, gold, right)
    return [
        {
            "depth": depth,
            "site": name,
            "masked": float(probed.share_masked[depth].mean()),
            "divergence": float(probed.divergence[depth].mean()),
            "predictions_kept": float(probed.agreement[depth].mean()),  # start and end each, as published
            "answers_kept": float((probed.agreement[depth] == 1).float().mean()),
            "certified_divergence": float(certified.divergence[depth].mean()),
            **{part: curve[depth] for part, curve in curves.items()},
            "exact_original": float(right.mean()),
        }
        for depth, name in enumerate(fitted.probe.site_names)
    ]


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Reduce the rows to the figures the study is judged by, for each kind of probe the mean over its seeds."""
    depths = sorted({row["depth"] for row in rows})

    def curve(key: str, kind: str) -> list[float]:
        some = [[row[key] for row in rows if row["kind"] == kind and row["depth"] == depth] for depth in depths]
        return [sum(values) / len(values) for values in some]

    found: dict[str, Any] = {"seeds": len({row["seed"] for row in rows}), "exact": rows[0]["exact_original"]}
    for kind, prefix in KINDS.items():
        found[f"{prefix}passage_masked_last"] = curve("passage_masked", kind)[-1]
        found[f"{prefix}predictions_kept_last"] = curve("predictions_kept", kind)[-1]
        found[f"{prefix}certified_passage_masked_by_depth"] = curve("certified_passage_masked", kind)
        for key in ("question_kept", "passage_kept", "predictions_kept", "divergence"):
            found[f"{prefix}{key}_by_depth"] = curve(key, kind)
    return found
