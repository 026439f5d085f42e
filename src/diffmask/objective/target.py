"""The one number per example that gradients explain, and its gradient with respect to a state inside the model.

What the model decided stays the question along a path or under a mask, even where another answer would by then win.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ModelError
from ..models.adapter import Adapter
from ..models.sites import States, replace, resume
from ..tasks.task import Task
from ..types import Batch, Bernoulli, Categorical, Prediction, Value, counted, split_prediction

Head = Categorical | Bernoulli | Value


@runtime_checkable
class Seen(Protocol):
    """What a gradient needs of an original pass; a `Look` has it."""

    @property
    def model(self) -> Adapter: ...

    @property
    def task(self) -> Task: ...

    @property
    def batch(self) -> Batch: ...

    @property
    def states(self) -> States: ...

    @property
    def original(self) -> Prediction: ...


def target(prediction: Prediction, original: Prediction) -> Float[Tensor, " batch"]:
    """Add up the log-probabilities of what the model decided originally; a value counts as it is.

    >>> original = {"label": Categorical(torch.tensor([[2.0, 0.0]]))}
    >>> target({"label": Categorical(torch.tensor([[0.0, 0.0]]))}, original)
    tensor([-0.6931])
    """
    heads = [(prediction[name], original[name]) for name in original]
    return torch.stack([_over_real(_chosen(head, before), head) for head, before in heads]).sum(0)


def logit(prediction: Prediction, original: Prediction) -> Float[Tensor, " batch"]:
    """Add up what the model gave, before any normalisation, for what it decided originally.

    The gradient of a log-probability fades where the model is sure; methods whose papers take the score use this.

    >>> original = {"label": Categorical(torch.tensor([[2.0, 0.0]]))}
    >>> logit({"label": Categorical(torch.tensor([[5.0, 0.0]]))}, original)
    tensor([5.])
    """
    heads = [(prediction[name], original[name]) for name in original]
    return torch.stack([_over_real(_raw_of_chosen(head, before), head) for head, before in heads]).sum(0)


def _raw_of_chosen(head: Head, original: Head) -> Tensor:
    raw = counted(head).float()
    if isinstance(head, Value) or isinstance(original, Value):
        return raw
    if isinstance(head, Bernoulli):
        return torch.where(original.decision().bool(), raw, -raw)
    return raw.gather(-1, original.decision().unsqueeze(-1)).squeeze(-1)


def _chosen(head: Head, original: Head) -> Tensor:
    """Take the log-probability of the original decision at every position, or the value there."""
    if isinstance(head, Value) or isinstance(original, Value):
        return counted(head).float()
    return head.log_probs().gather(-1, original.decision().unsqueeze(-1)).squeeze(-1)


def _over_real(values: Tensor, head: Head) -> Float[Tensor, " batch"]:
    if head.real is not None:
        values = values * head.real.view(*head.real.shape, *[1] * (values.dim() - 2))
    return values.reshape(len(values), -1).sum(1)


def gradient(
    seen: Seen, site_name: str, state: Float[Tensor, "row position hidden"]
) -> Float[Tensor, "row position hidden"]:
    """Differentiate every example's target with respect to `state`, put at a site of the frozen model.

    The state may be that of several copies of the batch, one after the other: a row's target depends on its own state
    alone, so one backward pass gives the gradient of each.
    """
    state = state.detach().requires_grad_(True)
    values = target_of_state(seen, site_name, state)
    return torch.autograd.grad(values, state, torch.ones_like(values), materialize_grads=True)[0].float()


def target_of_state(seen: Seen, site_name: str, state: Float[Tensor, "row position hidden"]) -> Float[Tensor, " row"]:
    """Return every row's target with `state` at a site of the frozen model, as something to differentiate."""
    with torch.enable_grad():
        parts = _predict(seen, site_name, state)
        values = torch.cat([target(part, seen.original) for part in parts])
    if not values.requires_grad:
        raise ModelError(
            f"no gradient reaches site '{site_name}' from the prediction, e.g. because the model runs under no_grad or "
            "decides before it answers: use a method without gradients, such as leave-one-out"
        )
    return values


def _predict(seen: Seen, site_name: str, state: Tensor) -> list[Prediction]:
    """Predict from a state on; for a single copy nothing before its site is computed again."""
    count, site = len(state) // len(seen.batch), seen.model.sites[site_name]
    copies = seen.batch if count == 1 else seen.batch.repeat(count)
    with resume(site, state, seen.states) if count == 1 else replace(site, state):
        return split_prediction(seen.task.read(seen.model(copies), copies), count)
