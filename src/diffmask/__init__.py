"""Faithful explanations of neural networks by learned masks.

>>> import diffmask
>>> sorted(diffmask.__all__)[:3]
['Adapter', 'Batch', 'Explanation']
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "Adapter": "models.adapter",
    "Batch": "types",
    "Explanation": "explanation",
    "Fit": "training.fit",
    "FitConfig": "training.config",
    "Site": "models.sites",
    "Task": "tasks.task",
    "TensorTask": "tasks.tensors",
    "adapt": "models.adapter",
    "capture": "models.sites",
    "certify": "explaining.certify",
    "explain": "explaining.explain",
    "fit": "training.fit",
    "load_fit": "training.saved",
    "recipe": "training.config",
    "replace": "models.sites",
    "resume": "models.sites",
    "save_fit": "training.saved",
}

__all__ = sorted(_PUBLIC)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `import diffmask` costs nothing."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'diffmask' has no attribute '{name}'")
    return getattr(importlib.import_module(f"diffmask.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
