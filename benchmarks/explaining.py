"""What an explanation costs: against the plain forward pass of the same batches, and against rivals."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from diffmask.attribution.leave_one_out import LeaveOneOut
from diffmask.attribution.method import Question
from diffmask.explaining.explain import explain
from diffmask.explaining.recorded import Recorded
from diffmask.explanation import Explanation
from diffmask.types import Batch

from .clock import ratios, seconds, spread
from .subjects import BATCH, LARGE, Subject, minilm, smollm2, vit

IG_STEPS, SHAP_SAMPLES, SHAP_EXAMPLES = 50, 200, 4


def over_forward(subject: Subject, repeats: int, batches: int = 1, size: int = BATCH) -> dict[str, Any]:
    """Compare explaining batches at every depth with running the model on them, as it is and recorded."""
    fitted, rows = subject.fit(), [*range(BATCH)] * (size // BATCH * batches)
    ours = {
        "explain": lambda: explain(fitted, rows, verify=False, batch_size=size, record=True),
        "explain and verify": lambda: explain(fitted, rows, batch_size=size, record=True),
    }
    found = ratios(ours, lambda: _forward(subject, rows, size, subject.read), repeats)
    linear = subject.fit(voter="linear")
    sums = {"explain, linear voters": lambda: explain(linear, rows, verify=False, batch_size=size, record=True)}
    found |= ratios(sums, lambda: _forward(subject, rows, size, subject.read), repeats)
    if subject.model.device.type == "cuda":
        slow = {"explain, not recorded": lambda: explain(fitted, rows, verify=False, batch_size=size)}
        found |= ratios(slow, lambda: _forward(subject, rows, size, subject.read), repeats)
        again, fast = Recorded(subject.read), {"explain ÷ forward, both recorded": ours["explain"]}
        found |= ratios(fast, lambda: _forward(subject, rows, size, again), repeats)
    return found


def operations(subject: Subject) -> dict[str, float]:
    """Count the operations of an explanation beside those of a forward pass: gates cost time where they compute."""
    fitted, rows, counts = subject.fit(), range(BATCH), list[int]()
    for run in (
        lambda: explain(fitted, rows, verify=False, batch_size=BATCH),
        lambda: _forward(subject, [*rows], BATCH, subject.read),
    ):
        with FlopCounterMode(display=False) as counter:
            run()
        counts.append(counter.get_total_flops())
    return {"ratio": counts[0] / counts[1]}


@torch.no_grad()
def _forward(subject: Subject, rows: list[int], size: int, read: Callable[[Batch], object]) -> None:
    """Run the model on batch after batch."""
    for start in range(0, len(rows), size):
        read(subject.task.collate(rows[start : start + size]).to(subject.model.device))


def measure(device: str, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each model and what is compared; on a GPU also for a batch that keeps it busy."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    batches = 8 if device == "cuda" else 1
    rows: list[dict[str, Any]] = []
    for make, own in ((minilm, repeats), (vit, max(2, repeats // 3)), (smollm2, max(2, repeats // 3))):
        subject = make(device, dtype)
        rows += [_row(subject, name, found) for name, found in over_forward(subject, own, batches).items()]
        rows.append(_row(subject, "operations of explain ÷ those of a forward pass", operations(subject)))
        if device == "cuda" and make is minilm:
            large = over_forward(subject, own, batches, LARGE)
            rows += [_row(subject, f"{name}, batch {LARGE}", found) for name, found in large.items()]
    return rows


def alike(device: str) -> list[dict[str, Any]]:
    """Compare recorded explanations with plain ones, example by example: nothing is to be different.

    On a GPU alone: elsewhere nothing is recorded.
    """
    if device != "cuda":
        return []
    return [_alike(make(device, dtype)) for make in (minilm, vit, smollm2) for dtype in (torch.float32, torch.bfloat16)]


def _alike(subject: Subject) -> dict[str, Any]:
    """Explain batches of two shapes again and again, recorded from the second time on."""
    fitted, rows = subject.fit(), range(BATCH + BATCH // 2)
    plain = explain(fitted, rows, batch_size=BATCH)
    again = [explain(fitted, rows, batch_size=BATCH, record=True) for _ in range(4)][-1]
    if not any(take is not None for _, run in fitted.recordings.values() for take in run.takes.values()):
        raise RuntimeError(f"{subject.name} was not recorded, so there is nothing to compare")
    pairs = list(zip(plain, again, strict=True))
    scores = max(float((one.scores - other.scores).abs().max()) for one, other in pairs)
    changed = max(abs(_divergence(one) - _divergence(other)) for one, other in pairs)
    dtype = str(next(subject.model.model.parameters()).dtype).removeprefix("torch.")
    return {
        "part": "recorded",
        "model": subject.name,
        "measure": f"largest difference of a score or a divergence from plain explanations, {dtype}",
        "ratio": max(scores, changed),
        "examples": len(pairs),
        "other_kept_sets": sum(not torch.equal(one.kept, other.kept) for one, other in pairs),
    }


def _divergence(explanation: Explanation) -> float:
    assert explanation.verification is not None  # explain verifies unless it is told not to
    return explanation.verification.divergence


def _row(subject: Subject, name: str, found: dict[str, float]) -> dict[str, Any]:
    return {"part": "explain", "model": subject.name, "weights": subject.weights, "measure": name, **found}


def rivals(device: str) -> list[dict[str, Any]]:
    """Compare rivals with explaining the same batch of 64 examples of 32 tokens."""
    subject = minilm(device)
    fitted = subject.fit()
    runs: dict[str, tuple[Callable[[], object], float]] = {"leave-one-out": (lambda: _leave_one_out(subject), 1)}
    if find_spec("captum") is not None:
        runs["integrated gradients (Captum, 50 steps)"] = (lambda: _integrated_gradients(subject), 1)
        runs["KernelSHAP (Captum, 200 samples)"] = (lambda: _kernel_shap(subject), BATCH / SHAP_EXAMPLES)
    explain(fitted, range(BATCH), verify=False)
    rows = []
    with subject.model.frozen():
        for name, (run, factor) in runs.items():
            found = []
            for _ in range(3):
                own = [seconds(lambda: explain(fitted, range(BATCH), verify=False)) for _ in range(3)]
                found.append(factor * seconds(run) / sorted(own)[1])
            rows.append({"part": "rival", "model": subject.name, "measure": name, **spread(found)})
    return rows


def _leave_one_out(subject: Subject) -> object:
    batch = subject.batch()
    zero = torch.zeros(subject.width, device=batch.valid.device)
    with torch.no_grad():
        return LeaveOneOut()(Question(subject.model, subject.task, batch, 0, zero))


def _logit(subject: Subject) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def forward(states: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        logits = subject.model.model(inputs_embeds=states, attention_mask=mask).logits
        return logits.gather(1, target.unsqueeze(1)).squeeze(1)

    return forward


def _embedded(subject: Subject, count: int) -> tuple[Tensor, Tensor, Tensor]:
    inputs = subject.batch(count).inputs
    with torch.no_grad():
        states = subject.model.model.get_input_embeddings()(inputs["input_ids"])  # type: ignore[operator]
        return states, inputs["attention_mask"], subject.model.model(**inputs).logits.argmax(1)


def _integrated_gradients(subject: Subject) -> object:
    from captum.attr import IntegratedGradients

    states, *more = _embedded(subject, BATCH)
    method = IntegratedGradients(_logit(subject))
    return method.attribute(states, additional_forward_args=tuple(more), n_steps=IG_STEPS, internal_batch_size=BATCH)


class LeastSquares:
    """The linear model Captum fits to its samples, for where scikit-learn, which it takes by default, is not there."""

    def fit(self, train_data: Any, **_: Any) -> dict[str, float]:
        x, y, weight = (torch.cat(parts) for parts in zip(*train_data, strict=True))
        root = weight.sqrt().unsqueeze(1)
        ones = torch.cat([x.float(), torch.ones_like(root)], 1)
        self.found = torch.linalg.lstsq(ones * root, y.float().view(-1, 1) * root, driver="gelsd").solution
        return {}

    def representation(self) -> Tensor:
        return self.found[:-1].T


def _kernel_shap(subject: Subject) -> object:
    from captum.attr import KernelShap

    states, *more = _embedded(subject, SHAP_EXAMPLES)
    units = torch.arange(states.shape[1], device=states.device).view(1, -1, 1).expand(1, *states.shape[1:])
    method = KernelShap(_logit(subject))
    method.interpretable_model = LeastSquares()  # type: ignore[assignment]
    return method.attribute(
        states,
        additional_forward_args=tuple(more),
        feature_mask=units,
        n_samples=SHAP_SAMPLES,
        perturbations_per_eval=BATCH,
    )
