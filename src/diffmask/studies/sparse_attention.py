"""Is sparse attention more interpretable (Meister et al. 2021): Tables 1, 2, 3, 5, 6 and Figures 1 to 4.

A job trains one classifier (data set, encoder, projection, seed) and measures all there is to measure about it. λ of
sparsegen can be undone by the scale of the scores, so the support that came of it stands beside every λ.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..attention.agreement import tally
from ..attention.attacks import SearchConfig, exact_adversary, search_adversary
from ..attention.classifier import AttentiveClassifier
from ..attention.evidence import gather_evidence
from ..attention.importance import CUTS, KINDS, Importance, measure_importance, state_entropy
from ..attention.measures import measure_robustness, permutation_changes
from ..attention.presets import meister
from ..attention.trained_adversary import AdversaryConfig, measure_apart, train_adversary
from .attentive import (
    SMALL,
    VECTORS,
    AttentiveSize,
    Prepared,
    every_nth,
    judge_attention,
    pool_vectors,
    prepare,
    train_preset,
)
from .result import write_result
from .seeds import made_with, run_seeds
from .setup import News, Setup
from .sparse_attention_published import ENCODERS
from .sparse_attention_summary import summarise, table_cells
from .trained import device

LAMBDAS = (-10.0, -3.0, -1.0, 0.0, 0.5, 0.9)  # 0 is sparsemax
FULL = AttentiveSize()
STRENGTH = 1.0  # of the adversaries' reward; theirs is not known
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Job:
    """One classifier: softmax where `sparsity` is None, else sparsegen with that λ."""

    dataset: str
    encoder: str
    sparsity: float | None
    seed: int

    @property
    def projection(self) -> str:
        if self.sparsity is None:
            return "softmax"
        return "sparsemax" if self.sparsity == 0 else f"sparsegen {self.sparsity:g}"

    @property
    def main(self) -> bool:
        """Whether it is in the tables, not only a point on the curve of λ."""
        return self.projection in ("softmax", "sparsemax")


def run(setup: Setup) -> News:
    """Run every job, saying so as each ends; last comes the result as written."""
    size, work = SMALL if setup.small else FULL, setup.work("sparse-attention")
    lambdas = (None, 0.0, 0.5) if setup.small else (None, *LAMBDAS)
    jobs = [
        Job(dataset, encoder, sparsity, seed)
        for seed in range(setup.seeds)
        for dataset in size.datasets
        for encoder in ENCODERS
        for sparsity in lambdas
    ]
    yield len(jobs)
    if setup.take_over and not setup.jobs and not work.is_dir() and (before := finished_in(setup.output)):
        yield f"{len(before['jobs'])} classifiers of {setup.output} are summed up anew"
        yield write(setup, before["seeds"], before["jobs"], before["made_with"])
        return
    done, directory = {}, setup.find_data("sst").parent
    pool = pool_vectors(directory, size, work / "vectors.safetensors")
    run_one = partial(run_job, jobs, size, directory, pool)
    for number, found in run_seeds(run_one, range(len(jobs)), work, repr((size, jobs)), setup.jobs, setup.take_over):
        done[number] = found
        job = jobs[number]
        yield f"{job.dataset}, {job.encoder}, {job.projection}, seed {job.seed}: accuracy {found['accuracy']:.3f}"
    finished = [done[number] for number in sorted(done)]
    yield write(setup, range(setup.seeds), finished, made_with(work, len(jobs)))


def write(setup: Setup, seeds: Sequence[int], jobs: Sequence[dict[str, Any]], makers: Any) -> dict[str, Any]:
    """Sum up what the jobs found, and write it down with them."""
    rows = table_cells(jobs)
    summary = summarise(jobs, rows, seeds, list(dict.fromkeys(job["dataset"] for job in jobs)))
    more = {"jobs": jobs, "vectors": VECTORS, "cuts": CUTS, "made_with": makers}
    return write_result(setup.output, "sparse-attention", setup.command, seeds, summary, rows, **more)


def finished_in(path: Path) -> dict[str, Any] | None:
    """Read a finished result file of this study, whose jobs can be summed up without being run; None if it is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("study") == "sparse-attention" else None


def run_job(jobs: Sequence[Job], size: AttentiveSize, directory: Path, pool: Path, number: int) -> dict[str, Any]:
    """Train the classifier of a job and measure it."""
    job, data = jobs[number], prepare(jobs[number].dataset, directory, size, pool)
    given = {} if job.sparsity is None else {"projection": "sparsegen", "sparsity": job.sparsity}
    preset = meister(len(data.task.vocabulary), job.encoder, job.seed, **given)  # type: ignore[arg-type]
    model, quality = train_preset(preset, data, size, job.seed)
    found = {**asdict(job), "projection": job.projection, **quality, "data": data.describe()}
    found |= importance_figures(measure_importance(model, data.task, data.measured(size)))
    found |= attack_figures(model, data, size, job)
    if job.main:
        states = state_entropy(model, data.task, every_nth(data.corpus.test, size.state_documents))
        found["state_entropy"] = asdict(tally(states))
        found["adversaries"] = adversaries(model, data, size, job.seed)
        found["faithfulness"] = judge_attention(model, data, size, job.seed)
    return found


def importance_figures(found: Importance) -> dict[str, Any]:
    """Average per document: agreement with its nulls, entropies, and how many words have weight."""
    return {
        "support": float(found.support.double().mean()),
        "support_share": float((found.support / found.words).double().mean()),
        "attention_entropy": asdict(tally(found.attention_entropy)),
        "agreement": {
            kind: {name: asdict(tally(value)) for name, value in vars(found.agreement[kind]).items()} for kind in KINDS
        },
        "entropy": {kind: asdict(tally(found.entropy[kind])) for kind in KINDS},
        "entropy_quantiles": {kind: _quantiles(found.entropy[kind]) for kind in KINDS[:2]},
        "truncated": {kind: [asdict(tally(found.truncated[cut][kind])) for cut in CUTS] for kind in KINDS[:2]},
    }


def attack_figures(model: AttentiveClassifier, data: Prepared, size: AttentiveSize, job: Job) -> dict[str, Any]:
    """Attack the attention of a classifier, document by document."""
    evidence = gather_evidence(model, data.task, data.measured(size)).to(device())
    robust = measure_robustness(evidence, seed=job.seed)
    found = {
        "uniform_accuracy": robust.uniform.accuracy,
        "permuted_accuracy": robust.permuted.accuracy,
        "permutation_change": float(permutation_changes(evidence, seed=job.seed).mean()),
        "exact_adversary": asdict(tally(exact_adversary(evidence).divergence)),
    }
    if job.main:
        part = evidence.part(slice(0, None, max(1, len(evidence) // size.state_documents)))
        searched = search_adversary(part, SearchConfig(steps=size.search_steps, seed=job.seed))
        found["searched_adversary"] = asdict(tally(searched.divergence))
    return found


def adversaries(model: AttentiveClassifier, data: Prepared, size: AttentiveSize, seed: int) -> dict[str, Any]:
    """Train adversaries whose encoder is frozen or not."""
    found = {}
    for name, frozen in (("frozen", True), ("unfrozen", False)):
        how = AdversaryConfig(STRENGTH, frozen, size.adversary_epochs, seed=seed + 1)
        adversary = train_adversary(
            model, data.task, every_nth(data.corpus.train, size.adversary_documents), how, data.vectors
        )
        apart = measure_apart(adversary, model, data.task, data.corpus.test)
        found[name] = {**asdict(apart), "change": apart.change, "strength": STRENGTH}
    return found


def _quantiles(values: torch.Tensor) -> list[float]:
    known = values[~values.isnan()]
    return known.quantile(torch.tensor(QUANTILES, dtype=known.dtype)).tolist() if len(known) else []
