"""The models and trainings of the papers, by name.

Meister et al. (2021) do not say how many epochs they trained, nor how the Transformer's input is made 128 wide: ours
stops when dev does not improve, and maps linearly. For the Transformer they give a rate of 1e-5; ours is 3e-5, to
train in fewer epochs. Tutek and Šnajder (2020) do not say which δ and η each table used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..errors import SettingError
from ..registry import unknown
from .config import AttentiveConfig, AttentiveTraining

Variant = Literal["base", "concat", "residual", "tying", "mlm"]
VARIANTS: tuple[Variant, ...] = ("base", "concat", "residual", "tying", "mlm")
TYING, MLM = (1.0, 10.0, 20.0, 30.0), (0.1, 0.3, 1.0, 3.0, 5.0)  # the δ and η they tried


@dataclass(frozen=True)
class Preset:
    """A model and how it is trained."""

    model: AttentiveConfig
    training: AttentiveTraining


def jain_wallace(words: int, alignment: str = "additive", **model: Any) -> Preset:
    """Return the BiLSTM of Jain and Wallace (2019)."""
    return Preset(AttentiveConfig(words, alignment=alignment, **model), AttentiveTraining())


def meister(words: int, encoder: Literal["bilstm", "transformer"] = "bilstm", seed: int = 0, **model: Any) -> Preset:
    """Return Meister et al.'s pairs: BiLSTM with additive, two-layer Transformer with scaled dot attention."""
    dot = encoder == "transformer"
    made = AttentiveConfig(
        words, encoder=encoder, layers=2 if dot else 1, alignment="dot" if dot else "additive", **model
    )
    rate = 3e-5 if dot else 1e-4
    return Preset(made, AttentiveTraining(epochs=40, learning_rate=rate, patience=4, seed=seed))


def tutek(
    words: int,
    variant: Variant = "base",
    alignment: str = "additive",
    strength: float | None = None,
    seed: int = 0,
    layers: int = 1,
) -> Preset:
    """Return a variant of Tutek and Šnajder: hidden states as wide as the embeddings, `strength` their δ or η."""
    if variant not in VARIANTS:
        raise SettingError(unknown("variant", variant, VARIANTS))
    if strength is not None and variant not in ("tying", "mlm"):
        raise SettingError(f"strength is δ of tying or η of mlm; variant '{variant}' has none")
    join: Any = variant if variant in ("concat", "residual") else "none"
    made = AttentiveConfig(words, hidden=150, layers=layers, alignment=alignment, join=join, freeze=variant == "mlm")
    given = {"tying": 10.0, "mlm": 1.0}.get(variant, 0.0) if strength is None else strength
    tying, mlm = (given if variant == term else 0.0 for term in ("tying", "mlm"))
    return Preset(made, AttentiveTraining(seed=seed, tying=tying, mlm=mlm))
