"""Find the sites of a model by its structure, not by its name: the input embedding and the list of equal blocks.

transformers moves modules between releases, and users bring models nobody has heard of; an embedding and a list of
blocks are still there. What is not found can always be named by hand.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ..errors import SiteError
from ..registry import unknown
from .blocks import Named, blocks_of, input_embedding
from .sites import Site, trace
from .vision import find_patch_sites, reads_images

log = logging.getLogger(__name__)


def find_sites(model: nn.Module) -> list[Site]:
    """Find the input embeddings before position, what enters the first block, and what leaves each block."""
    where, part = input_part(model)
    blocks = blocks_of(part, reads_images(model))
    if reads_images(model):
        return find_patch_sites(model, [(where + name, block) for name, block in blocks])
    embedding = input_embedding(part)
    if embedding is None and not blocks:
        raise SiteError(
            f"no sites found in {type(model).__name__}: it has no nn.Embedding, no nn.ModuleList of equal blocks and "
            "no recurrent layer. Name the modules whose outputs hold one state per unit: "
            'adapt(model, sites=["encoder", …])'
        )
    sites = [] if embedding is None else [Site(where + embedding[0], embedding[1])]
    if blocks and not isinstance(blocks[0][1], nn.RNNBase):
        sites.append(Site(f"{where}{blocks[0][0]}:input", blocks[0][1], "input"))
    return sites + [Site(where + name, block) for name, block in blocks]


def blocks_beside(model: nn.Module, sites: Sequence[Site]) -> list[Site]:
    """Return the blocks that are no sites: what a run that resumes after them need not compute.

    A block with a repeated site inside is none of them: skipped, the site's calls could not be told apart.
    """
    chosen = {site.module for site in sites if site.side == "output"}
    repeated = {site.module for site in sites if site.calls > 1}
    _, part = input_part(model)
    free = [
        pair
        for pair in blocks_of(part, reads_images(model))
        if pair[1] not in chosen and not repeated & set(pair[1].modules())
    ]
    return [Site(f"passed: {name}", block, optional=True) for name, block in free]


def named_site(model: nn.Module, site: Site | str) -> Site:
    """Turn the name of a module, perhaps with ":input", into a site."""
    if isinstance(site, Site):
        return site
    if not isinstance(site, str):
        raise SiteError(f"a site is the name of a module, or a Site(…), got {site!r}: see model.named_modules()")
    path, _, side = site.partition(":")
    modules = dict(model.named_modules())
    if path not in modules or not path:
        raise SiteError(unknown(f"module in {type(model).__name__}", path, [name for name in modules if name]))
    if side not in ("", "input", "output"):
        raise SiteError(f"site '{site}': a module has an ':input' and an ':output', not '{side}'")
    return Site(site, modules[path], "input" if side == "input" else "output")


def in_order_of_calls(sites: Sequence[Site], run: Callable[[], Any], found: bool = False) -> list[Site]:
    """Order the sites as `run` reaches them; a block that runs several times gets one site per call.

    Of sites that were `found`, blocks that the model passes by, such as those that look at pictures, are left out.

    What enters a later call of a shared block is what left the call before, and an embedding that a decoder uses
    too has met the inputs in its first call: of these, only the first is a site.
    """
    order = trace(sites, run)
    passed = [site for site in sites if site not in order and found and _is_block(site)]
    if passed and any(_is_block(site) for site in order):
        log.warning("the model passes by %s on the example: no sites", ", ".join(site.name for site in passed))
    else:
        passed = []
    missing = [site.name for site in sites if site not in order and site not in passed]
    if missing:
        raise SiteError(
            f"site '{missing[0]}' was not reached when the model ran on the example: leave it out. If it was found, "
            "not named by you, the model passes it by or calls its forward itself, where nothing can be read: name "
            'modules that it calls, each with one state per unit: adapt(model, sites=["embeddings", …])'
        )
    calls, turn, ordered = Counter(order), Counter[Site](), list[Site]()
    for site in order:
        call, turn[site] = turn[site], turn[site] + 1
        if calls[site] == 1:
            ordered.append(site)
        elif _is_block(site):
            ordered.append(replace(site, name=f"{site.name}@{call}", call=call, calls=calls[site]))
        elif call == 0:
            ordered.append(replace(site, calls=calls[site]))
    return ordered


def _is_block(site: Site) -> bool:
    return site.side == "output" and not isinstance(site.module, nn.Embedding)


def input_part(model: nn.Module) -> Named:
    """Return the part that reads the inputs: the encoder of an encoder–decoder, or the whole model."""
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        encoder = model.get_encoder()  # type: ignore[operator]
        return next((f"{name}.", module) for name, module in model.named_modules() if module is encoder)
    return "", model


def position_count(model: nn.Module) -> int | None:
    """Return how many positions a model takes: those it has an embedding for, or else as many as it says; None if none.

    Some begin to count after the padding, and some have two rows more than they say. Rotated or relative positions
    have no end, but beyond what the configuration says the model was never trained.
    """
    config = getattr(model, "config", None)
    said = _said_positions(config)
    if said is None:
        return None
    for module in model.modules():
        rows = module.num_embeddings if isinstance(module, nn.Embedding) else 0
        if rows in (said, said + 2) and rows != getattr(config, "vocab_size", None):
            unused = 0 if rows > said or module.padding_idx is None else module.padding_idx + 1  # type: ignore[operator]
            return said - int(unused)
    return said


def _said_positions(config: Any) -> int | None:
    """Return the number of positions in a configuration, or in its part that is about text."""
    parts = (config, getattr(config, "text_config", None), getattr(config, "encoder", None))
    said = (getattr(part, "max_position_embeddings", None) for part in parts)
    return next((count for count in said if isinstance(count, int) and count > 0), None)  # XLNet says −1
