"""How long the probes of the sentiment study take alone: one seed after the other, one fit at a time.

Settings and data are those of the study, the encoder is fine-tuned as there. What the probes mask is measured again,
so that nobody has to believe that the fast fits and the good ones are the same.

    python -m benchmarks.sentiment_fit --data DIR --encoder DIR    # for a GPU; writes results/sentiment_fit.json
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from diffmask.studies.probing import probe_examples
from diffmask.studies.result import write_result
from diffmask.studies.sentiment import FULL, KINDS, SMALL, Job, Sentiment, Size, config
from diffmask.studies.setup import Setup
from diffmask.studies.trained import clock, device, train_classifier
from diffmask.training.fit import fit

OUTPUT = Path("results/sentiment_fit.json")
COMMAND = "python -m benchmarks.sentiment_fit --data DIR --encoder DIR"
MOST_SECONDS = 300  # what issue 3 asks for: both probes


def fit_alone(study: Sentiment, size: Size, job: Job) -> dict[str, Any]:
    """Fit one probe as the study does, checkpoints and all, and measure it on the test sentences."""
    began = clock(device())
    fitted = fit(study.model, study.task, config(job, size), directory=study.work / job.name)
    seconds = clock(device()) - began
    study.model.model.to(device())
    fitted.probe.to(device())
    with study.model.computing(fitted.config.dtype):
        probed = probe_examples(fitted, study.texts)
    study.model.model.to("cpu")
    found = {"masked": float(probed.share_masked.mean()), "divergence": float(probed.divergence.mean(1).max())}
    return {"seed": job.seed, "kind": job.kind, "seconds": seconds, **found}


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the times of the slowest seed: of each probe, and of both, which is what has a limit."""
    seeds = sorted({row["seed"] for row in rows})
    both = max(sum(row["seconds"] for row in rows if row["seed"] == seed) for seed in seeds)
    each = {kind: max(row["seconds"] for row in rows if row["kind"] == kind) for kind in KINDS}
    return {"seeds": len(seeds), **each, "both": both, "within_limits": both < MOST_SECONDS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory with sst/")
    parser.add_argument("--encoder", type=Path, required=True, help="directory of the pretrained encoder")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--small", action="store_true", help="a few steps, to see that it runs")
    asked = parser.parse_args()
    setup = Setup(asked.seeds, asked.output, small=asked.small, data=asked.data, encoder=asked.encoder)
    size, data = SMALL if asked.small else FULL, setup.find_data("sst")
    with tempfile.TemporaryDirectory() as work:
        train_classifier(setup.find_encoder(), data, Path(work) / "model", size.epochs, size.sentences)
        study, rows = Sentiment(data, Path(work), size), list[dict[str, Any]]()
        for job in (Job(seed, kind) for seed in range(asked.seeds) for kind in KINDS):
            rows.append(fit_alone(study, size, job))
            print(rows[-1], flush=True)
    write_result(asked.output, "sentiment_fit", COMMAND, range(asked.seeds), summarise(rows), rows)


if __name__ == "__main__":
    main()
