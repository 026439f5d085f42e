"""Small random models of any class of transformers: its default settings, with every size that it knows made small."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, PretrainedConfig

from diffmask.types import Batch

UNITS, MOST_WEIGHTS = 6, 150_000_000
NAMES = {  # what classes call the same thing; so that heads times their width is the width, and a quarter of it is even
    96: ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "word_embed_proj_dim"),
    128: (
        "intermediate_size",
        "d_ff",
        "ffn_dim",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
        "hidden_dim",
        "d_inner",
        "n_inner",
    ),
    16: ("moe_intermediate_size", "shared_expert_intermediate_size", "embedding_size"),
    2: (
        *("num_decoder_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_labels"),
        *("num_experts_per_tok", "n_group", "topk_group", "first_k_dense_replace"),
    ),
    4: (  # as many layers as some need to have one of each kind
        *("num_hidden_layers", "num_layers", "num_attention_heads", "n_head", "n_heads", "num_key_value_heads"),
        "rotary_dim",
    ),
    6: ("encoder_attention_heads", "decoder_attention_heads"),
    8: ("num_heads", "patch_size", "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    10: ("chunk_size", "mamba_chunk_size"),
    24: ("head_dim", "d_kv"),
    99: ("vocab_size",),
    72: ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "image_size"),
    0: ("pad_token_id",),
    1: ("bos_token_id", "cls_token_id"),
    5: ("eos_token_id", "sep_token_id"),
}
SIZES = {name: size for size, names in NAMES.items() for name in names}
SHAPES = ("head_dim", "d_kv", "patch_size", "embedding_size")  # what some classes count from other sizes
ATTEMPTS = (  # which of them are left out, where that is needed
    *((), SHAPES, ("max_position_embeddings",), ("intermediate_size", *SHAPES)),
    *(("num_hidden_layers", "num_layers"), ("num_hidden_layers", "num_layers", *SHAPES), tuple(SIZES)),
)
IMAGES = "image classification"


class NotBuiltError(Exception):
    """There is no small model of this class that runs on a plain input; it says nothing about diffmask."""


def build(name: str, kind: str, task: str) -> tuple[nn.Module, Batch]:
    """Make a small random model of a class, and a batch that it was seen to run on."""
    model_class = getattr(transformers, name)
    config_class = model_class.config_class or CONFIG_MAPPING[kind]  # of a model with parts, that of the part
    reasons = []
    for left_out, wide in product(ATTEMPTS, (True, False)):
        try:
            model = made(model_class, small(config_class, left_out), wide)
            batch = make_batch(model, task)
            check_runs(model, batch)
            return model, batch
        except TimeoutError:
            raise
        except Exception as error:  # whatever a class says of sizes that do not go together
            reasons.append(f"{type(error).__name__}: {error}")
    raise NotBuiltError(" ".join(reasons[0].split())[:160])


@torch.no_grad()
def check_runs(model: nn.Module, batch: Batch) -> None:
    """Run a model as it is, without diffmask, and see that it answers, and otherwise where it reads something else."""
    name, read = next(iter(batch.inputs.items()))
    answers = [model(**(batch.inputs | begun(model) | {name: given}))[0] for given in (read, read.flip(0))]
    if not answers[0].isfinite().all():
        raise NotBuiltError("answers with NaN or infinity")
    if torch.equal(*answers):
        raise NotBuiltError("answers the same whatever it reads")


def small(config_class: type[PretrainedConfig], left_out: tuple[str, ...]) -> PretrainedConfig:
    """Return settings of a class with the sizes that it knows made small."""
    usual = config_class()
    sizes = {name: size for name, size in SIZES.items() if name not in left_out and knows(usual, name)}
    parts = {name: getattr(usual, name, None) for name in getattr(config_class, "sub_configs", {})}
    inside = {name: small(type(part), left_out) for name, part in parts.items() if isinstance(part, PretrainedConfig)}
    return config_class(**sizes, **inside)


def knows(config: PretrainedConfig, name: str) -> bool:
    """Say whether a class has a size of this name; some refuse the question."""
    try:
        return hasattr(config, name)
    except NotImplementedError:
        return False


def made(model_class: Any, config: PretrainedConfig, wide: bool) -> nn.Module:
    """Make a model that is small enough, and if `wide` one for which it matters more what it reads."""
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in model_class(config).parameters())
    if weights > MOST_WEIGHTS:
        raise NotBuiltError(f"{weights / 1e6:.0f} million weights with the sizes that are known")
    torch.manual_seed(0)
    model = model_class(config).eval()
    for says in (model.config, getattr(model, "generation_config", None)):  # with which token an answer begins
        if says is not None:
            says.decoder_start_token_id = 1
    return widened(model) if wide else model


def widened(model: nn.Module) -> nn.Module:
    """Make the weights of a fresh model larger."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2 and weight.is_floating_point():
                weight.normal_(0, 0.1)
    return model


def make_batch(model: nn.Module, task: str) -> Batch:
    """Make two images, or two texts of which the second is shorter."""
    config: Any = model.config
    if task == IMAGES:
        part = config if hasattr(config, "image_size") else getattr(config, "vision_config", config)
        size = getattr(part, "image_size", 64)
        height, width = (size, size) if isinstance(size, int) else size
        pixels = torch.randn(2, getattr(part, "num_channels", 3), height, width)
        return Batch({"pixel_values": pixels}, torch.ones(2, 1, dtype=torch.bool))
    ids, mask = torch.randint(6, 90, (2, UNITS)), torch.ones(2, UNITS, dtype=torch.long)
    mask[1, UNITS - 2 :] = 0
    ids[0, -1] = ids[1, UNITS - 3] = SIZES["eos_token_id"]
    return Batch({"input_ids": ids * mask, "attention_mask": mask}, mask.bool())


def begun(model: nn.Module) -> dict[str, torch.Tensor]:
    """Begin the answer of a model that writes it apart from what it reads."""
    config: Any = model.config
    writes = config.is_encoder_decoder and getattr(model, "get_output_embeddings", lambda: None)() is not None
    return {"decoder_input_ids": torch.ones(2, 1, dtype=torch.long)} if writes else {}
