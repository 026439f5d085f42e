"""How much the answer, or a hidden state, hangs on each word that is read: by its gradient, and by leaving it out.

    g_ŷ(x_i) = ‖∂ŷ/∂e_i‖     g_{h_p}(x_i) = ‖∂‖h_p‖/∂e_i‖     D_ŷ(x_i) = |ŷ − ŷ₋ᵢ|, the word deleted from the text

Meister et al. (2021), with gradients through the attention; Jain and Wallace (2019) cut them there and took |g·e|.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .classifier import AttentiveClassifier, real_positions
from .evidence import margins
from .still import still

Words = Float[Tensor, "document position"]
Inputs = Mapping[str, Tensor]
POSITIONS, ON_GPU = 1 << 15, 1 << 19  # that are read at once when words are left out; a GPU would wait for more


def input_gradients(model: AttentiveClassifier, inputs: Inputs, through_attention: bool = True) -> tuple[Words, Words]:
    """Return the length of the gradient of the probability to each embedding, and |gradient · embedding|."""
    with still(model), torch.enable_grad():
        embedded, real, attended = _start(model, inputs)
        hidden = model.encode(embedded, real)
        weights = model.project(model.alignment(hidden), attended)
        margin = _margin(model, hidden, weights if through_attention else weights.detach(), attended)
        (found,) = torch.autograd.grad(margin.sigmoid().sum(), embedded)
    size, product = found.norm(dim=-1), (found * embedded.detach()).sum(-1).abs()
    return torch.where(attended, size, 0), torch.where(attended, product, 0)


def state_gradients(model: AttentiveClassifier, inputs: Inputs) -> Iterator[tuple[Words, Bool[Tensor, " document"]]]:
    """Yield, for the first word, the second and so on, how its hidden state's length hangs on each embedding.

    Beside it stands which documents have that many words; one backward pass serves a word of every document.
    """
    with still(model), torch.enable_grad():
        embedded, real, attended = _start(model, inputs)
        lengths = model.encode(embedded, real).norm(dim=-1)  # (document, position)
        number = attended.long().cumsum(1)
        for word in range(1, int(attended.sum(1).max()) + 1):
            chosen = attended & (number == word)
            (found,) = torch.autograd.grad(lengths[chosen].sum(), embedded, retain_graph=True)
            yield torch.where(attended, found.norm(dim=-1), 0), chosen.any(1)


@torch.no_grad()
def inputs_left_out(model: AttentiveClassifier, inputs: Inputs) -> Words:
    """Return how much the probability changes when each word is deleted from its text."""
    ids, real = inputs["input_ids"], real_positions(inputs["input_ids"], inputs.get("attention_mask"))
    with still(model):
        output = model(ids, real)
        before = margins(model, output.context).sigmoid()
        found = torch.zeros(ids.shape, device=ids.device, dtype=before.dtype)
        for rows, places in _pairs(output.attended, real):
            part = model(*without(ids[rows], real[rows], places))
            found[rows, places] = (margins(model, part.context).sigmoid() - before[rows]).abs()
    return found


def without(
    ids: Int[Tensor, "row position"], real: Bool[Tensor, "row position"], places: Int[Tensor, " row"]
) -> tuple[Int[Tensor, "row position"], Bool[Tensor, "row position"]]:
    """Delete one position of each row; those behind it move up, and padding stands at the end."""
    last = ids.shape[1] - 1
    place = torch.arange(ids.shape[1], device=ids.device)
    order = (place + (place >= places.unsqueeze(1))).clamp_max(last)
    return ids.gather(1, order) * (place < last), real.gather(1, order) & (place < last)


def _pairs(attended: Tensor, real: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield documents and the word each is to lose, as many as are read at once."""
    size = max(1, (ON_GPU if real.is_cuda else POSITIONS) // real.shape[1])
    for part in torch.split(attended.nonzero(), size):
        yield part[:, 0], part[:, 1]


def _start(model: AttentiveClassifier, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Embed the words as a leaf of the graph, and say which positions are real and which attended."""
    ids = inputs["input_ids"]
    real = real_positions(ids, inputs.get("attention_mask"))
    return model.embedding(ids).detach().requires_grad_(), real, real & ~torch.isin(ids, model.unattended)


def _margin(model: AttentiveClassifier, hidden: Tensor, weights: Tensor, attended: Tensor) -> Tensor:
    context = (weights.to(hidden.dtype).unsqueeze(-1) * torch.where(attended.unsqueeze(-1), hidden, 0)).sum(1)
    return margins(model, context)
