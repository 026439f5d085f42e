"""A fitted probe for code that was written for Captum or Quantus: token ids in, one score per position out.

Neither package is needed: their methods are known by how they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import ModelError, SettingError
from ..tasks.positions import batch_of_positions
from ..training.fit import Fit
from ..training.step import look
from ..types import Batch, Categorical, Prediction, check_finite
from .explain import check_depth

USUAL = ("input_ids", "attention_mask")  # for a model that does not say what it takes
MakeBatch = Callable[[Mapping[str, Tensor]], Batch]
Target = int | Sequence[int] | Tensor | None


@dataclass(frozen=True)
class CaptumProbe:
    """A probe as Captum's methods are: `attribute(inputs)` gives the probability that each position is kept.

    Scores are 0 at padding and at what is never gated. `make_batch` makes a batch of the tensors the model takes, by
    name, where the task needs more than those, such as the words of a text.
    """

    fitted: Fit
    depth: int | str = -1
    make_batch: MakeBatch | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", check_depth(self.fitted.probe, self.depth))

    def attribute(
        self, inputs: Tensor, target: Target = None, additional_forward_args: Any = None, **named: Any
    ) -> Float[Tensor, "batch position"]:
        """Score every position of `inputs`; the rest is what the model takes after them, in its order or by name.

        A `target` can only be what the model predicts: a mask keeps the whole of its prediction.
        """
        batch = self._batch({**self._by_name(inputs, additional_forward_args), **named}, inputs)
        with torch.no_grad(), self.fitted.model.frozen():
            seen = look(self.fitted.model, self.fitted.task, batch)
            check_finite(seen.original)
            check_target(seen.original, target)
            votes = self.fitted.probe(seen.reading, check_depth(self.fitted.probe, self.depth))
            scores = votes.exact_keep_probability()  # in which the surest units do not tie
        return over_positions(batch, scores * batch.valid).to(inputs.device)

    def has_convergence_delta(self) -> bool:
        """Say no: a probability of being kept is no share of a sum."""
        return False

    def _by_name(self, inputs: Tensor, more: Any) -> dict[str, Any]:
        """Give the arguments the names the model has for them."""
        given = (inputs, *(more if isinstance(more, tuple) else (more,)))
        names = arguments(self.fitted.model.model) or USUAL
        if len(given) > max(len(names), 2):
            raise SettingError(
                f"additional_forward_args has {len(given) - 1} arguments, and {type(self.fitted.model.model).__name__} "
                f"takes {', '.join(names)}: leave out what it does not take"
            )
        return dict(zip(names, given, strict=False))

    def _batch(self, named: Mapping[str, Any], inputs: Tensor) -> Batch:
        model, rows = self.fitted.model, inputs.shape[:2]
        tensors = {name: value for name, value in named.items() if value is not None}
        if "attention_mask" not in tensors and "attention_mask" in (arguments(model.model) or USUAL):
            tensors["attention_mask"] = torch.ones(rows, dtype=torch.long)
        tensors = {name: v.to(model.device) if isinstance(v, Tensor) else v for name, v in tensors.items()}
        if self.make_batch is not None:
            return self.make_batch(tensors).to(model.device)
        return batch_of_positions(self.fitted.task, tensors, (rows[0], rows[1])).to(model.device)


def quantus_explainer(
    fitted: Fit, depth: int | str = -1, make_batch: MakeBatch | None = None
) -> Callable[..., NDArray[np.float64]]:
    """Return a function to hand to Quantus as `explain_func`: called with a model, inputs and targets, it scores them.

    Of its keywords, those that the model takes are passed on, and the rest, such as `device`, left alone.
    """
    probe = CaptumProbe(fitted, depth, make_batch)

    def explain_func(model: Any, inputs: Any, targets: Any = None, **settings: Any) -> NDArray[np.float64]:
        check_same_model(fitted, model)
        ids = torch.as_tensor(inputs)
        known = {name: settings[name] for name in arguments(fitted.model.model) or USUAL if name in settings}
        known = {name: torch.as_tensor(v) if isinstance(v, np.ndarray) else v for name, v in known.items()}
        scores = probe.attribute(ids, None if targets is None else torch.as_tensor(targets), **known)
        scores = scores.reshape(*scores.shape, *[1] * (ids.dim() - 2)).expand(ids.shape)  # over what a position holds
        return scores.cpu().numpy().copy()

    return explain_func


def arguments(model: nn.Module) -> list[str]:
    """List what a model takes, by name and in order."""
    plain = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, argument in signature(model.forward).parameters.items() if argument.kind in plain]


def check_target(original: Prediction, target: Target) -> None:
    """Refuse a target that the model does not predict: the probe has nothing to say about it."""
    if target is None:
        return
    heads = list(original.values())
    if len(heads) != 1 or not isinstance(heads[0], Categorical) or heads[0].raw.dim() != 2:
        raise SettingError(
            f"a probe takes a target where one label is predicted, and this model predicts {', '.join(original)}: pass "
            "target=None, which explains all of it"
        )
    predicted = heads[0].decision().cpu()
    asked = torch.as_tensor(target).cpu().flatten()
    asked = asked.expand(len(predicted)) if len(asked) == 1 else asked
    if len(asked) != len(predicted):
        raise SettingError(f"target names {len(asked)} labels for {len(predicted)} examples: name one each, or None")
    wrong = (asked != predicted).nonzero().flatten().tolist()
    if wrong:
        raise SettingError(
            f"example {wrong[0]} was asked about target {int(asked[wrong[0]])} and the model predicts "
            f"{int(predicted[wrong[0]])}: a probe explains what is predicted, so pass target=None, or use another "
            "method for other labels"
        )


def check_same_model(fitted: Fit, model: Any) -> None:
    """Refuse to explain another model than the probe was fitted to; one wrapped around it is the same."""
    if isinstance(model, nn.Module) and not any(part is fitted.model.model for part in model.modules()):
        raise ModelError(
            f"this probe was fitted to another {type(fitted.model.model).__name__} than the {type(model).__name__} it "
            "is asked to explain, e.g. a copy with random weights: fit a probe to that one"
        )


def over_positions(batch: Batch, scores: Float[Tensor, "batch unit"]) -> Float[Tensor, "batch position"]:
    """Give every position the score of its unit, and 0 to those of none."""
    if batch.place is None:
        return scores
    return torch.where(batch.place >= 0, scores.gather(1, batch.place.clamp_min(0)), 0)
