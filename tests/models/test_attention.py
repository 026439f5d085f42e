"""The attention of a Hugging Face model, head by head."""

import pytest
import torch

from diffmask.errors import ModelError
from diffmask.models.adapting import adapt
from diffmask.models.attention import asking, attention, real_positions
from diffmask.types import Batch
from tiny_text import make_model
from toys import evidence_model, evidence_task


@pytest.fixture
def batch():
    ids = torch.tensor([[1, 5, 6, 2], [1, 4, 2, 0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    return Batch({"input_ids": ids, "attention_mask": mask}, mask.bool())


@pytest.mark.parametrize("kind", ["bert", "llama", "gpt2"])
@torch.no_grad()
def test_every_layer_gives_every_head(kind, batch):
    model = make_model(kind)
    found = attention(adapt(model), batch, "attention")
    model.set_attn_implementation("eager")
    expected = model(**batch.inputs, output_attentions=True).attentions
    assert len(found) == len(expected) == 2
    for layer, own in zip(found, expected, strict=True):
        assert layer.shape == (2, 2, 4, 4) and torch.equal(layer, own)


def test_the_refusal_names_who_asked():
    with pytest.raises(ModelError, match=r"Evidence gives no attention .* which method 'somebody' reads"):
        attention(evidence_model(), evidence_task().collate([0]), "somebody")


def test_one_position_asks_or_all_that_are_real(batch):
    assert asking(batch).tolist() == [[0.25] * 4, pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])]
    one = Batch(batch.inputs, batch.valid, ask=torch.tensor([3, 2]))
    assert asking(one).tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]


def test_without_a_mask_the_positions_of_units_are_real():
    place = torch.tensor([[-1, 0, 0, 1]])
    assert real_positions(Batch({}, torch.tensor([[True, False]]), place)).tolist() == [[False, True, True, False]]
