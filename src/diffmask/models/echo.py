"""Classifiers with a decoder, such as BART for entailment, read a text twice: in the decoder, one position later."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from ..errors import ModelError
from .running import decoder_of, reads_twice
from .sites import Site


def echoed(model: nn.Module, site: Site) -> Site:
    """Tell a site at which tokens enter the encoder where they enter the decoder; what is replaced is replaced in both.

    They are known again there by their embedding, so both parts have to share theirs. A decoder that begins with the
    last token, which is the code of a language (MBART), still reads that one.
    """
    decoder = decoder_of(model)
    if not isinstance(site.module, nn.Embedding) or decoder is None or not reads_twice(model):
        return site
    again = decoder.get_input_embeddings()  # type: ignore[operator]
    if again is site.module:
        return replace(site, echo=replace(site, name=f"{site.name}, again", call=1))
    if again.weight is not site.module.weight:
        raise ModelError(
            f"{type(model).__name__} reads a text in its encoder and again in its decoder, whose embedding is another: "
            "what is dropped from one would still be read in the other. Bring an encoder, or one that shares its own"
        )
    return replace(site, echo=Site(f"{site.name}, again", again))
