"""Vision models small enough to know the answer: random weights, patches of 4 × 4 pixels, no downloads."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

LAYERS, PATCH = 3, 4
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "patch_size": PATCH,
    "initializer_range": 0.4,  # wide enough for a random model to have opinions
}
ODD = {**SIZES, "image_size": (12, 20)}
SQUARE = {**SIZES, "image_size": 16}  # models that cannot say height and width apart, though some take both
SWIN = {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "image_size": 16, "patch_size": PATCH}
TOWER = {"vision_config": SQUARE, "text_config": {**SIZES, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": 9}}

# The settings of each model, the height and width of its images, and how many positions come before its patches.
ARCHITECTURES: dict[str, tuple[dict[str, Any], tuple[int, int], int]] = {
    "ViTForImageClassification": (ODD, (12, 20), 1),
    "DeiTForImageClassification": (ODD, (12, 20), 2),
    "BeitForImageClassification": ({**ODD, "use_relative_position_bias": True}, (12, 20), 1),
    "Dinov2ForImageClassification": (SQUARE, (12, 20), 1),
    "Dinov2WithRegistersForImageClassification": ({**SQUARE, "num_register_tokens": 4}, (12, 20), 5),
    "ViTMSNForImageClassification": (ODD, (12, 20), 1),
    "IJepaForImageClassification": (ODD, (12, 20), 0),
    "SiglipForImageClassification": (TOWER, (16, 16), 0),
    "CLIPForImageClassification": (TOWER, (16, 16), 1),
    "CLIPVisionModelWithProjection": ({**SQUARE, "projection_dim": 5}, (16, 16), 1),
    "SwinForImageClassification": (SWIN, (16, 16), 0),
}


def build(name: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> nn.Module:
    """Make a model of a class of transformers; random, and the same for the same seed."""
    torch.manual_seed(seed)
    model_class = getattr(transformers, name)
    labels = {} if name.endswith("Projection") else {"num_labels": 3}
    settings = {**ARCHITECTURES[name][0], **labels, **changes}
    return model_class(model_class.config_class(**settings)).to(dtype).eval()


def images(name: str = "ViTForImageClassification", count: int = 2, seed: int = 1) -> Tensor:
    """Make random images, ready for the model."""
    return torch.randn(count, 3, *ARCHITECTURES[name][1], generator=torch.Generator().manual_seed(seed))
