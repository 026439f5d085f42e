"""Importance of inputs and hidden states, against autograd and against one word at a time."""

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention import ALIGNMENTS, ENCODERS, PROJECTIONS
from diffmask.attention.hidden_importance import hidden_gradients, hidden_left_out, shares
from diffmask.attention.input_importance import input_gradients, inputs_left_out, state_gradients, without

CORPUS = make_corpus(24)
TASK = make_task(CORPUS)
TEXTS = ["class0 w1 w2 w3", "w4", "w5 class1 w6 w7 w8 w9 w1"]
each_encoder = pytest.mark.parametrize("encoder", ENCODERS.names)
each_alignment = pytest.mark.parametrize("alignment", ALIGNMENTS.names)
each_projection = pytest.mark.parametrize("projection", PROJECTIONS.names)


def make(side="right", **settings):
    task = make_task(CORPUS, side=side)
    if settings.get("projection") == "sparsegen":
        settings["sparsity"] = -2.0
    model = make_model(task, **settings).double()
    with torch.no_grad():  # attention that is neither uniform nor one word
        for weight in model.alignment.parameters():
            weight *= 6
    return model, task.collate(TEXTS), task


def probability(logits):
    return logits[:, 0].sigmoid() if logits.shape[1] == 1 else logits.softmax(1)[:, 1]


@each_alignment
@each_projection
@pytest.mark.parametrize("labels", [1, 2])
def test_the_gradient_to_hidden_states_is_autograds(alignment, projection, labels):
    model, batch, _ = make(alignment=alignment, projection=projection, labels=labels)
    output = model(**batch.inputs)
    (expected,) = torch.autograd.grad(probability(output.logits).sum(), output.hidden)
    found = hidden_gradients(model, output)
    assert torch.allclose(found, torch.where(batch.valid.unsqueeze(-1), expected, 0), atol=1e-14, rtol=1e-10)
    assert found[batch.valid].norm(dim=-1).max() > 1e-4


@each_encoder
@each_projection
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_hidden_state_is_left_out_by_projecting_the_others(encoder, projection, side):
    model, batch, _ = make(side, encoder=encoder, projection=projection)
    output = model(**batch.inputs)
    found = hidden_left_out(model, output)
    before = probability(output.logits)
    for row, place in batch.valid.nonzero().tolist():
        others = output.attended[row].clone()
        others[place] = False
        weights = model.project(output.scores[row], others)
        after = model.decoder(weights @ output.hidden[row]).sigmoid()[0]
        assert torch.isclose(found[row, place], (before[row] - after).abs(), atol=1e-12)
    assert (found[~batch.valid] == 0).all()


def test_leaving_a_word_with_nearly_all_the_weight_out_is_exact():
    model, batch, _ = make(alignment="dot")
    with torch.no_grad():
        model.alignment.query *= 900
    output = model(**batch.inputs)
    assert (output.attention[0].max() > 1 - 1e-4) and output.attention[0].max() < 1
    found = hidden_left_out(model, output)[0]
    place = output.attention[0].argmax()
    others = output.attended[0].clone()
    others[place] = False
    after = model.decoder(model.project(output.scores[0], others) @ output.hidden[0]).sigmoid()[0]
    assert torch.isclose(found[place], (output.logits[0, 0].sigmoid() - after).abs(), rtol=1e-9)


@each_encoder
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_word_is_left_out_by_deleting_it_from_the_text(encoder, side):
    model, batch, task = make(side, encoder=encoder, layers=2)
    found = inputs_left_out(model, batch.inputs)
    before = probability(model(**batch.inputs).logits)
    for row, text in enumerate(TEXTS):
        for number, place in enumerate(batch.valid[row].nonzero().flatten().tolist()):
            words = text.split()
            rest = task.numbers(" ".join(words[:number] + words[number + 1 :]))
            after = probability(model(torch.tensor([rest])).logits)[0]
            assert torch.isclose(found[row, place], (before[row] - after).abs(), atol=1e-12)
    assert (found[~batch.valid] == 0).all()


def test_deleting_moves_what_is_behind_up():
    ids, real = torch.tensor([[2, 5, 6, 3, 0]]), torch.tensor([[1, 1, 1, 1, 0]]).bool()
    left, there = without(ids, real, torch.tensor([1]))
    assert left.tolist() == [[2, 6, 3, 0, 0]] and there.tolist() == [[True, True, True, False, False]]


@each_encoder
@each_projection
def test_the_gradient_to_inputs_goes_through_the_attention(encoder, projection):
    model, batch, _ = make(encoder=encoder, projection=projection)
    size, product = input_gradients(model, batch.inputs)
    real = batch.inputs["attention_mask"].bool()
    embedded = model.embedding(batch.inputs["input_ids"]).detach().requires_grad_()
    hidden = model.encode(embedded, real)
    context = (model.project(model.alignment(hidden), batch.valid).unsqueeze(-1) * hidden).sum(1)
    (expected,) = torch.autograd.grad(model.decoder(context).sigmoid().sum(), embedded)
    assert torch.allclose(size, torch.where(batch.valid, expected.norm(dim=-1), 0), atol=1e-12)
    assert torch.allclose(product, torch.where(batch.valid, (expected * embedded).sum(-1).abs(), 0), atol=1e-12)


def test_cut_at_the_attention_a_word_encoder_ranks_as_its_attention_times_the_map():
    model, batch, _ = make(encoder="projection")
    cut, _ = input_gradients(model, batch.inputs, through_attention=False)
    whole, _ = input_gradients(model, batch.inputs)
    output = model(**batch.inputs)
    chance = probability(output.logits)
    inner = (1 - output.hidden.square()) * model.decoder.weight[0]  # tanh' ⊙ w
    expected = (output.attention * (chance * (1 - chance)).unsqueeze(1)).unsqueeze(-1) * (
        inner @ model.layers[0].map.weight
    )
    assert torch.allclose(cut, torch.where(batch.valid, expected.norm(dim=-1), 0), atol=1e-12)
    assert not torch.allclose(cut, whole)


@each_encoder
def test_the_gradient_of_every_hidden_state_is_that_of_one_backward_pass_each(encoder):
    model, batch, _ = make(encoder=encoder)
    real = batch.inputs["attention_mask"].bool()
    for number, (found, known) in enumerate(state_gradients(model, batch.inputs)):
        assert known.tolist() == [len(text.split()) > number for text in TEXTS]
        for row in known.nonzero().flatten().tolist():
            embedded = model.embedding(batch.inputs["input_ids"][row : row + 1]).detach().requires_grad_()
            place = batch.valid[row].nonzero()[number, 0]
            length = model.encode(embedded, real[row : row + 1])[0, place].norm()
            (expected,) = torch.autograd.grad(length, embedded)
            assert torch.allclose(found[row], torch.where(batch.valid[row], expected[0].norm(dim=-1), 0), atol=1e-12)
    assert number + 1 == 7


@each_encoder
def test_importance_does_not_depend_on_batch_mates_or_padding(encoder):
    model, batch, task = make(encoder=encoder)
    alone = task.collate(TEXTS[:1])
    for measure in (inputs_left_out, lambda *given: input_gradients(*given)[0]):
        together, single = (measure(model, given.inputs)[0][given.valid[0]] for given in (batch, alone))
        assert torch.allclose(together, single, atol=1e-12)


def test_weights_and_modes_are_left_as_they_were():
    model, batch, _ = make()
    model.train()
    input_gradients(model, batch.inputs)
    inputs_left_out(model, batch.inputs)
    list(state_gradients(model, batch.inputs))
    assert model.training and all(weight.requires_grad and weight.grad is None for weight in model.parameters())


def test_shares_add_up_to_one_where_anything_matters():
    attended = torch.tensor([[True, True, False], [True, True, True]])
    found = shares(torch.tensor([[1.0, 3.0, 5.0], [0.0, 0.0, 0.0]]), attended)
    assert torch.equal(found, torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]))
