"""What a model's configuration says about what it computes: models with the same weights may differ in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

# Names, sizes that the weights have anyway, and what counts only in training, for a loss, or for how it is computed.
ASIDE = re.compile(
    r"_.*|.*drop.*|.*init.*|.*label.*|.*dtype.*|.*version.*|.*attn_implementation|output_.*|return_dict|use_cache"
    r"|architectures|problem_type|name_or_path|task_specific_params|finetuning_task|tokenizer_class|prefix"
    r"|(pad|bos|eos|cls|sep)_token_id|max_position_embeddings|n_positions|image_size|vocab_size|tie_word_embeddings"
    r"|chunk_size_feed_forward|quantization_config|gradient_checkpointing|pretraining_tp|.*flash.*"
)


def configuration_of(model: nn.Module) -> dict[str, Any]:
    """Return the settings that change what a model computes, as plain data; none where there is no configuration."""
    to_dict = getattr(getattr(model, "config", None), "to_dict", None)
    if not callable(to_dict):
        return {}
    plain: dict[str, Any] = json.loads(json.dumps(dict(_settings(to_dict())), default=str))
    return plain


def _settings(found: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if ASIDE.fullmatch(str(name)):
            continue
        if isinstance(value, Mapping):
            yield from _settings(value, f"{within}{name}.")
        elif value is not None:
            yield f"{within}{name}", value


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Name the settings in which two configurations differ; what only one of them has came with another version."""
    return sorted(name for name in one.keys() & other.keys() if one[name] != other[name])
