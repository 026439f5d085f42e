"""Which axis of a tensor is time: most models put examples before it, some the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from torch import nn

from .sites import Site, States

Layout = Literal["line", "time"]
Place = tuple[nn.Module, str]
OWN_AXES = (nn.RNNBase, nn.TransformerEncoderLayer)  # layers that were told which axis comes first


def declared(site: Site) -> Site:
    """Lay a site out as its module was told to, if it is one that is told."""
    if site.layout != "line" or not isinstance(site.module, OWN_AXES):
        return site
    told = site.module if isinstance(site.module, nn.RNNBase) else site.module.self_attn
    return site if getattr(told, "batch_first", True) else replace(site, layout="time")


def layouts(states: States, shape: Sequence[int]) -> dict[Place, Layout]:
    """Return how the tensors seen at some sites are laid out, where (examples, positions) tells the axes apart.

    What stands there may be a state of something else, such as whole windows of a text: then nothing is said of it.
    """
    examples, positions = shape
    if examples == positions:
        return {}
    known: dict[tuple[int, ...], Layout] = {(examples, positions): "line", (positions, examples): "time"}
    seen = {place(site): tuple(states[site.name].shape[:2]) for site in states.sites if site.name in states}
    return {where: known[axes] for where, axes in seen.items() if axes in known}


def place(site: Site) -> Place:
    """Say where a site is, whichever of the module's calls it is about."""
    return site.module, site.side
