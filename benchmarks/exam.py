"""What a model has to do to be explained: keep the rules at each of its sites, and let a probe be fitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from diffmask.explaining.explain import explain
from diffmask.models.adapter import Adapter
from diffmask.models.sites import States, capture, replace, resume
from diffmask.tasks.tensors import TensorTask
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.types import Batch, Categorical, Prediction

BRIEFLY: dict[str, Any] = {"steps": 2, "batch_size": 2, "ablation_steps": 1, "validate_every": 2}


def failures(adapter: Adapter, batch: Batch) -> Iterator[str]:
    """Say what is wrong at which site."""
    with adapter.frozen():
        with torch.no_grad(), capture(adapter.sites) as states:
            original = answer(adapter, batch)
        for site in adapter.sites:
            state = states[site.name]
            other = state * torch.linspace(-2, 2, state.shape[-1]).to(state)  # not by a constant: norms take it out
            same = [given(adapter, batch, site, state, states, resumed) for resumed in (False, True)]
            changed = [given(adapter, batch, site, other, states, resumed) for resumed in (False, True)]
            if not all(torch.allclose(found, original, atol=1e-5) for found in same):
                yield f"{site.name}: a state replaced by itself changes the answer"
            last = site is adapter.sites[-1]  # which may be read at [CLS] alone
            if not last and torch.equal(changed[0], original):
                yield f"{site.name}: nobody reads it"
            if not torch.allclose(*changed, rtol=1e-3, atol=1e-4):
                yield f"{site.name}: resuming there is not running anew"
        kept, recomputed = slopes(adapter, batch, states)
        if not (kept.isfinite().all() and kept.any()):
            yield f"{adapter.sites[0].name}: no gradient comes back"
        if not torch.allclose(kept, recomputed, rtol=1e-3, atol=1e-5):
            yield f"{adapter.sites[0].name}: another gradient where blocks are computed again"


@torch.no_grad()
def given(adapter: Adapter, batch: Batch, site: Any, state: Tensor, states: States, resumed: bool) -> Tensor:
    """Return what the model says of another state at a site."""
    with resume(site, state, states) if resumed else replace(site, state):
        return answer(adapter, batch)


def slopes(adapter: Adapter, batch: Batch, states: States) -> Iterator[Tensor]:
    """Return the gradient at the first site, by kept activations and by recomputed ones."""
    first = adapter.sites[0]
    for recomputed in (False, True):
        state = states[first.name].clone().requires_grad_(True)
        with adapter.recomputing(recomputed), replace(first, state):
            answer(adapter, batch).square().sum().backward()
        assert state.grad is not None
        yield state.grad


def answer(adapter: Adapter, batch: Batch) -> Tensor:
    """Return what a model says of what is real."""
    output = adapter(batch)
    said: Tensor = output[0].float()
    per_unit = said.dim() > 1 and said.shape[:2] == batch.valid.shape
    return said[batch.valid] if per_unit else said


def explain_briefly(adapter: Adapter, batch: Batch) -> None:
    """Fit both kinds of probe for two steps, on copies of the first example, and explain one."""
    copies = {name: tensor[:1].repeat(6, *[1] * (tensor.dim() - 1)) for name, tensor in batch.inputs.items()}
    with torch.no_grad(), adapter.frozen(), capture(adapter.sites) as states:
        adapter(batch)
    units = states[adapter.sites[0].name].shape[1] if adapter.patch else batch.valid.shape[1]
    task = TensorTask(copies, torch.ones(6, units, dtype=torch.bool), last_said, validation_count=2)
    for kind in ("input", "hidden"):
        explain(fit(adapter, task, recipe("text", kind=kind, **BRIEFLY)), task.validation[:1])


def last_said(output: Any) -> Prediction:
    """Read the class of an example, or of its last unit."""
    said = output[0].float()
    return {"answer": Categorical(said if said.dim() == 2 else said[:, -1])}
