"""How much of a span model's prediction is left when it sees the question and its own answer, and nothing else.

No probe is fitted: of the passage, the predicted answer and some tokens on each side of it are kept, and a baseline is
learned for that very mask. It tells what masks of inputs can be asked for, whatever finds them: the study of question
answering asks probes for 95 % of the passage at 90 % of the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..models.adapter import Adapter
from ..models.adapting import adapt
from ..objective.divergence import agreement, divergence
from ..tasks.squad import Answered
from ..tasks.text import SpanAnswer
from ..training.random import batch_indices
from ..training.step import look
from ..types import Batch, Prediction
from .question_answering import FILE, MAX_LENGTH, reported, training_questions
from .question_answering import FULL as QUESTIONS
from .question_answering_model import load_span_model, train_span_model
from .result import write_result
from .seeds import check_own, made_with, run_seeds
from .setup import News, Setup
from .trained import device

LONGEST = 15  # tokens of an answer: start and end are predicted apart, and may be far apart
RATE = 0.3  # of the baseline, in standard deviations of the embeddings


@dataclass(frozen=True)
class Size:
    """How much is trained and measured; texts are short, so that two cores can do it."""

    epochs: int = 3
    tokens: int = 150
    steps: int = 100
    reported: int = 300
    questions: int | None = None


FULL, SMALL = Size(), Size(epochs=1, steps=2, reported=4, questions=200)


@dataclass(frozen=True)
class Job:
    """What is kept of the passage (None: nothing; else so many tokens on each side of the answer), and the measure."""

    seed: int
    side: int | None
    measure: str


KEPT = ((None, "kl"), (0, "kl"), (0, "decision"), (3, "kl"), (3, "decision"))


def run(setup: Setup) -> News:
    """Fine-tune a span model, learn a baseline for each mask, and say what is left; last comes the result."""
    size, work, path = SMALL if setup.small else FULL, setup.work("answer-alone"), setup.find_data("squad") / FILE
    encoder = setup.find_encoder()
    train, check, _ = chosen(encoder, path, size)
    found = train_span_model(encoder, train, check, work / "model", size.epochs)
    jobs = [Job(seed, *kept) for kept in KEPT for seed in range(setup.seeds)]
    yield len(jobs)
    yield f"fine-tuned: exact start and end {found['exact']:.3f}"
    rows: dict[int, dict[str, Any]] = {}
    run_one = partial(run_job, jobs, size, encoder, path, work)
    for number, row in run_seeds(run_one, range(len(jobs)), work, repr((size, jobs)), setup.jobs, setup.take_over):
        check_own(work, number, Job(row["seed"], row["side"], row["measure"]), jobs[number])
        rows[number] = row
        yield f"{jobs[number]}: passage masked {row['passage_masked']:.3f}, kept {row['predictions_kept']:.3f}"
    ordered = [rows[number] for number in sorted(rows)]
    more = {"made_with": made_with(work, len(jobs)), "fine_tuned": found, "tokens": size.tokens}
    yield write_result(
        setup.output, "answer-alone", setup.command, range(setup.seeds), summarise(ordered), ordered, **more
    )


def chosen(encoder: Path, path: Path, size: Size) -> tuple[list[Answered], list[Answered], list[Answered]]:
    """Return the short questions of the study of question answering: for training, for checking, and reported."""
    from transformers import AutoTokenizer

    tokenizer, asked = AutoTokenizer.from_pretrained(encoder), replace(QUESTIONS, questions=size.questions)

    def short(questions: Sequence[Answered]) -> list[Answered]:
        return [q for q in questions if len(tokenizer(*q.pair, verbose=False)["input_ids"]) <= size.tokens]

    train, check = training_questions(path, asked)
    return short(train), short(check), short(reported(path, asked))[: size.reported]


def run_job(jobs: Sequence[Job], size: Size, encoder: Path, path: Path, work: Path, number: int) -> dict[str, Any]:
    """Learn the baseline of one mask, and measure what that mask leaves on the reported questions."""
    job, (train, _, shown) = jobs[number], chosen(encoder, path, size)
    model, tokenizer = load_span_model(work / "model", MAX_LENGTH)
    adapted = adapt(model.to(device()), tokenizer)
    task = SpanAnswer(tokenizer, [q.pair for q in train], [q.pair for q in shown])
    with adapted.frozen():
        baseline = learn_baseline(adapted, task, job, size.steps)
        return {**asdict(job), **measured(adapted, task, job, baseline)}


def keep_answer(
    batch: Batch, said: Prediction, part: Bool[Tensor, "batch unit"], side: int | None
) -> Bool[Tensor, "batch unit"]:
    """Keep what is not `part`, the passage, and of it the predicted answer and `side` tokens on each side."""
    if side is None:
        return batch.valid & ~part
    ends = torch.stack([said[name].raw.argmax(1, keepdim=True) for name in ("start", "end")])
    first, last = ends.amin(0), torch.minimum(ends.amax(0), ends.amin(0) + LONGEST)
    place = torch.arange(part.shape[1], device=part.device)
    return batch.valid & (~part | ((place >= first - side) & (place <= last + side)))


def passage(batch: Batch, tokenizer: Any) -> Bool[Tensor, "batch unit"]:
    """Say which positions are words of the passage."""
    ids, second = batch.inputs["input_ids"], batch.inputs["token_type_ids"] == 1
    return second & batch.valid & (ids != tokenizer.sep_token_id)


def learn_baseline(model: Adapter, task: SpanAnswer, job: Job, steps: int) -> Float[Tensor, " hidden"]:
    """Learn what stands in for the passage where just this is kept, from the mean of the embeddings on."""
    table = model.model.get_input_embeddings().weight  # type: ignore[operator]
    baseline = table.detach().mean(0).requires_grad_(True)
    optimizer = torch.optim.Adam([baseline], lr=RATE * float(table.std(0).mean()))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    batches = batch_indices(len(task.train), 16, job.seed, lengths=task.lengths(task.train))
    for _, rows in zip(range(steps), batches, strict=False):
        seen = look(model, task, task.collate([task.train[row] for row in rows]).to(model.device))
        keep = keep_answer(seen.batch, seen.original, passage(seen.batch, task.tokenizer), job.side)
        masked = seen.masked_at(model.sites[0].name, keep, baseline)
        optimizer.zero_grad()
        torch.autograd.backward(divergence(seen.original, masked, job.measure).mean())
        optimizer.step()
        schedule.step()
    return baseline.detach()


@torch.no_grad()
def measured(model: Adapter, task: SpanAnswer, job: Job, baseline: Float[Tensor, " hidden"]) -> dict[str, float]:
    """Run the reported questions with the mask: what is masked, and what is left of the prediction."""
    found = []
    for start in range(0, len(task.validation), 32):
        seen = look(model, task, task.collate(task.validation[start : start + 32]).to(model.device))
        part = passage(seen.batch, task.tokenizer)
        keep = keep_answer(seen.batch, seen.original, part, job.side)
        masked = seen.masked_at(model.sites[0].name, keep, baseline)
        same = agreement(seen.original, masked)
        share = (part & ~keep).sum(1) / part.sum(1)
        found.append(torch.stack([share, same, (same == 1).float(), divergence(seen.original, masked)], dim=1))
    names = ("passage_masked", "predictions_kept", "answers_kept", "divergence")
    return dict(zip(names, torch.cat(found).mean(0).tolist(), strict=True))


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what each mask leaves, in the mean over the seeds."""
    found: dict[str, Any] = {"seeds": len({row["seed"] for row in rows})}
    for side, measure in KEPT:
        some = [row for row in rows if (row["side"], row["measure"]) == (side, measure)]
        name = "question_alone" if side is None else f"answer_{side}_{measure}"
        for key in ("passage_masked", "predictions_kept", "divergence"):
            found[f"{name}_{key}"] = sum(row[key] for row in some) / len(some)
    return found
