"""Faithful explanations of neural networks by learned masks.

>>> import diffmask
>>> sorted(diffmask.__all__)[:3]
['Adapter', 'Batch', 'Explanation']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the lazy names below are, for type checkers and editors
    from .attribution.attribute import attribute as attribute
    from .bulk.run import BulkConfig as BulkConfig
    from .bulk.run import explain_file as explain_file
    from .evaluation.compare import compare as compare
    from .explaining.captum import CaptumProbe as CaptumProbe
    from .explaining.captum import quantus_explainer as quantus_explainer
    from .explaining.certify import certify as certify
    from .explaining.embedded import load_embedded as load_embedded
    from .explaining.explain import explain as explain
    from .explaining.explainer import Explainer as Explainer
    from .explaining.pretrained import from_pretrained as from_pretrained
    from .explanation import Explanation as Explanation
    from .explanation import to_pixels as to_pixels
    from .models.adapter import Adapter as Adapter
    from .models.adapting import adapt as adapt
    from .models.sites import Site as Site
    from .models.sites import capture as capture
    from .models.sites import replace as replace
    from .models.sites import resume as resume
    from .tasks.continuation import Continuation as Continuation
    from .tasks.continuation import in_chat as in_chat
    from .tasks.continuation import own_continuations as own_continuations
    from .tasks.images import ImageClassification as ImageClassification
    from .tasks.images import PlainProcessor as PlainProcessor
    from .tasks.task import Task as Task
    from .tasks.tensors import TensorTask as TensorTask
    from .tasks.text import MultiLabelClassification as MultiLabelClassification
    from .tasks.text import NextToken as NextToken
    from .tasks.text import SpanAnswer as SpanAnswer
    from .tasks.text import TextClassification as TextClassification
    from .tasks.text import TextRegression as TextRegression
    from .tasks.text import TokenClassification as TokenClassification
    from .tasks.units import Kept as Kept
    from .training.choose import choose as choose
    from .training.config import FitConfig as FitConfig
    from .training.config import recipe as recipe
    from .training.fit import Fit as Fit
    from .training.fit import fit as fit
    from .training.saved import load_fit as load_fit
    from .training.saved import save_fit as save_fit
    from .types import Batch as Batch

_PUBLIC = {
    "Adapter": "models.adapter",
    "Batch": "types",
    "BulkConfig": "bulk.run",
    "CaptumProbe": "explaining.captum",
    "Continuation": "tasks.continuation",
    "Explainer": "explaining.explainer",
    "Explanation": "explanation",
    "Fit": "training.fit",
    "FitConfig": "training.config",
    "ImageClassification": "tasks.images",
    "Kept": "tasks.units",
    "MultiLabelClassification": "tasks.text",
    "NextToken": "tasks.text",
    "PlainProcessor": "tasks.images",
    "Site": "models.sites",
    "SpanAnswer": "tasks.text",
    "Task": "tasks.task",
    "TensorTask": "tasks.tensors",
    "TextClassification": "tasks.text",
    "TextRegression": "tasks.text",
    "TokenClassification": "tasks.text",
    "adapt": "models.adapting",
    "attribute": "attribution.attribute",
    "capture": "models.sites",
    "certify": "explaining.certify",
    "choose": "training.choose",
    "compare": "evaluation.compare",
    "explain": "explaining.explain",
    "explain_file": "bulk.run",
    "fit": "training.fit",
    "from_pretrained": "explaining.pretrained",
    "load_embedded": "explaining.embedded",
    "in_chat": "tasks.continuation",
    "load_fit": "training.saved",
    "own_continuations": "tasks.continuation",
    "quantus_explainer": "explaining.captum",
    "recipe": "training.config",
    "replace": "models.sites",
    "resume": "models.sites",
    "save_fit": "training.saved",
    "to_pixels": "explanation",
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
