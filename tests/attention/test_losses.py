"""The losses against sums written out word by word."""

import pytest
import torch
import torch.nn.functional as F

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention.losses import class_weights, label_loss, mlm_loss, tying_loss
from diffmask.attention.masked_words import hide_words, masking_of
from diffmask.errors import SettingError

TASK = make_task(make_corpus(12))
BATCH = TASK.collate(["class0 w1 w2 w3", "w4", "w5 class1 w6 w7 w8 w9 w1"])


def test_tying_is_the_mean_squared_distance_over_the_words_of_the_batch():
    model = make_model(TASK)
    output = model(**BATCH.inputs)
    each = [
        (output.hidden[row, place] - output.embedded[row, place]).square().sum()
        for row, place in BATCH.valid.nonzero().tolist()
    ]
    assert torch.isclose(tying_loss(output), torch.stack(each).mean())


def test_mlm_guesses_the_chosen_words_with_the_embeddings():
    model, ids = make_model(TASK, freeze=True), BATCH.inputs["input_ids"]
    hidden = hide_words(ids, BATCH.valid, masking_of(TASK.vocabulary, 0.5), torch.Generator().manual_seed(0))
    states = model(hidden.input_ids, BATCH.inputs["attention_mask"]).hidden
    each = [
        -(model.embedding.weight @ states[row, place]).log_softmax(0)[ids[row, place]]
        for row, place in hidden.chosen.nonzero().tolist()
    ]
    found = mlm_loss(model, ids, BATCH.inputs["attention_mask"], hidden)
    assert len(each) > 2 and torch.isclose(found, torch.stack(each).mean())
    found.backward()
    assert model.embedding.weight.grad is None and model.layers[0].ahead.weight_hh_l0.grad.abs().sum() > 0


def test_mlm_of_nothing_chosen_is_zero():
    model, ids = make_model(TASK), BATCH.inputs["input_ids"]
    hidden = hide_words(ids, torch.zeros_like(BATCH.valid), masking_of(TASK.vocabulary), torch.Generator())
    assert mlm_loss(model, ids, BATCH.inputs["attention_mask"], hidden) == 0


def test_yes_or_no_is_weighed_as_pytorchs_positive_weight():
    logits, labels = torch.randn(8, 1), torch.tensor([0, 1, 0, 0, 1, 0, 0, 0])
    weights = class_weights(labels, 2)
    assert weights.tolist() == [1.0, 3.0]
    expected = F.binary_cross_entropy_with_logits(logits[:, 0], labels.float(), pos_weight=torch.tensor(3.0))
    assert torch.isclose(label_loss(logits, labels, weights), expected)


def test_several_classes_take_the_cross_entropy():
    logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 0, 0])
    assert torch.isclose(label_loss(logits, labels), F.cross_entropy(logits, labels))
    assert torch.allclose(class_weights(labels, 3), torch.tensor([0.5, 2.0, 2.0]))


def test_hidden_states_of_another_width_are_neither_tied_nor_decoded():
    model = make_model(TASK, join="concat")
    with pytest.raises(SettingError, match="tying compares hidden states of width 16 with embeddings of width 8"):
        tying_loss(model(**BATCH.inputs))
