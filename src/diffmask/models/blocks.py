"""Which module the inputs enter, and which of a model's lists of modules are its blocks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from .vision import first_convolution

Named = tuple[str, nn.Module]
Listed = tuple[str, nn.ModuleList]


def input_embedding(part: nn.Module) -> Named | None:
    """Return the embedding transformers declares, or else the first one there is."""
    try:
        declared = part.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        declared = None
    embeddings = [(name, m) for name, m in part.named_modules() if isinstance(m, nn.Embedding)]
    # Of several with the same weights the last is called: the others stand for what is tied.
    tied = [pair for pair in embeddings if declared is not None and pair[1].weight is declared.weight]
    return tied[-1] if tied else next(iter(embeddings), None)


def blocks_of(part: nn.Module, images: bool) -> list[Named]:
    """Return the longest list of equal blocks that is in no other, or else the recurrent layers.

    Where there is none but inside of blocks of several kinds in turn, such as some that attend and some that do not,
    these count too.
    """
    lists = _near(part, [(name, m) for name, m in part.named_modules() if isinstance(m, nn.ModuleList)], images)
    equal = _outermost([pair for pair in lists if len(_kinds(pair[1])) == 1])
    mixed = _outermost([pair for pair in lists if _take_turns(pair[1])])
    inside = {m for _, outer in mixed for m in outer.modules()}
    lists = [pair for pair in equal if pair[1] not in inside] or [*equal, *mixed]
    if not lists:
        return [(name, m) for name, m in part.named_modules() if isinstance(m, nn.RNNBase)]
    name, longest = max(lists, key=lambda pair: len(pair[1]))
    first = {block: i for i, block in reversed(list(enumerate(longest)))}  # one block may stand in several places
    return [(f"{name}.{i}" if name else str(i), block) for block, i in reversed(first.items())]


def _near(part: nn.Module, lists: Sequence[Listed], images: bool) -> Sequence[Listed]:
    """Leave out what belongs to another model inside, which reads something else, such as the pictures beside a text.

    That is known where a model of transformers' holds what the inputs enter: others inside of it are beside it.
    """
    embedding = input_embedding(part)
    entrance = first_convolution(part) if images else embedding and embedding[1]
    models = [m for m in part.modules() if hasattr(m, "base_model_prefix")]
    reading = [m for m in models if entrance and any(_shares(entrance, other) for other in m.modules())]
    held = {m for model in reading for m in model.modules()}
    away = {m for model in models if model not in reading for m in model.modules()}
    return [pair for pair in lists if pair[1] in held - away] or lists


def _shares(one: nn.Module, other: nn.Module) -> bool:
    """Say whether two modules are one, or tied."""
    return type(one) is type(other) and one.weight is other.weight


def _outermost(lists: Sequence[Listed]) -> list[Listed]:
    """Leave out lists inside of others, such as a block's experts."""
    inner = {m for _, outer in lists for m in outer.modules() if m is not outer}
    return [(name, m) for name, m in lists if m not in inner]


def _kinds(blocks: nn.ModuleList) -> set[type]:
    """Return of which kinds blocks are; a list of embeddings, one for each tag of a page, or with gaps, has none."""
    kinds = {type(block) for block in blocks}
    return set() if any(issubclass(kind, nn.Embedding | type(None)) for kind in kinds) else kinds


def _take_turns(blocks: nn.ModuleList) -> bool:
    """Say whether these are blocks of a few kinds, some of them again and again."""
    return 1 < len(_kinds(blocks)) < len(blocks) and all(any(block.children()) for block in blocks)
