"""Captum as a second engine: the same questions, asked of the model as a function of the state at a site.

Captum (Kokhlikyan et al. 2020) knows inputs and outputs alone, so that is what it is given: states in, targets out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DiffMaskError, SettingError
from ..masking.mask import mask_state
from ..registry import unknown
from .target import Seen, target_of_state

Engine = Literal["own", "captum"]


def captum_methods() -> Any:
    """Import Captum's methods, or say how to get them."""
    try:
        import captum.attr
    except ImportError as error:
        raise DiffMaskError("this asks Captum, which is not there: pip install 'diffmask[captum]'") from error
    return captum.attr


def check_engine(engine: str) -> None:
    """Refuse an engine that nobody knows."""
    if engine not in get_args(Engine):
        raise SettingError(unknown("engine", engine, get_args(Engine)))


def captum_integrated_gradients(
    seen: Seen, site_name: str, start: Float[Tensor, "batch position hidden"], steps: int, batch_size: int
) -> Float[Tensor, "batch position hidden"]:
    """Let Captum follow the straight way from `start` to the state that was seen.

    What belongs to no unit starts where it ends, and so adds nothing, as under a mask.
    """
    state = seen.states[site_name].float()
    nothing = torch.zeros(seen.batch.valid.shape, device=state.device)
    start = mask_state(state, seen.batch.spread(nothing), start.float())
    engine = captum_methods().IntegratedGradients(_from_state(seen, site_name))
    rows = max(batch_size, len(state))  # Captum warns about fewer rows than the batch has, and takes no notice
    how = {"n_steps": steps, "method": "gausslegendre", "internal_batch_size": rows}
    return engine.attribute(_leaf(state), start, **how).detach()


def captum_gradient_input(
    seen: Seen, site_name: str, start: Float[Tensor, "batch position hidden"]
) -> Float[Tensor, "batch position hidden"]:
    """Let Captum multiply gradient and input, where the input is how far the state is from `start`."""
    value_of, start = _from_state(seen, site_name), start.float()
    engine = captum_methods().InputXGradient(lambda difference: value_of(start + difference))
    return engine.attribute(_leaf(seen.states[site_name].float() - start)).detach()


def _from_state(seen: Seen, site_name: str) -> Callable[[Tensor], Tensor]:
    return partial(target_of_state, seen, site_name)


def _leaf(tensor: Tensor) -> Tensor:
    """Return a copy that asks for a gradient: Captum would switch it on itself, and warn."""
    return tensor.detach().clone().requires_grad_(True)
