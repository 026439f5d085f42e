"""Knocking units out of attention: nothing is replaced, everything stays where it is, and nobody sees them."""

import pytest
import torch

from diffmask.masking.knockout import attention_weights, run_knocked_out
from diffmask.masking.mask import run_masked
from diffmask.models.adapting import adapt
from diffmask.tasks.text import NextToken, TextClassification
from diffmask.training.step import look
from diffmask.types import Batch
from tiny_text import TEXTS, make_model, make_tokenizer, pad_left

KINDS = ["bert", "llama", "gpt2"]


def asked(kind, side="right", texts=TEXTS, **settings):
    """Return an adapted tiny model that shows the states of its last layer, and a batch for it."""
    bare = {"bert": "bert", "llama": "model", "gpt2": "transformer"}[kind]
    model = adapt(getattr(make_model(kind, **settings), bare))
    task = (TextClassification if kind == "bert" else NextToken)(make_tokenizer(causal=kind != "bert"), [], [])
    return model, pad_left(task, side == "left").collate(texts)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", KINDS)
def test_keeping_all_is_the_original_model(kind, side):
    model, batch = asked(kind, side)
    real = batch.inputs["attention_mask"].bool()
    with torch.no_grad():
        one, other = model(batch), run_knocked_out(model, batch, batch.valid)
    torch.testing.assert_close(one.last_hidden_state[real], other.last_hidden_state[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_knocked_out_unit_reaches_no_other_position(kind, side):
    model, batch = asked(kind, side)
    keep, row = batch.valid.float(), 2
    gone = int(batch.valid[row].nonzero()[1])
    keep[row, gone] = 0
    other = batch.inputs["input_ids"].clone()
    other[row, gone] = 8  # whatever stands there
    changed = Batch({**batch.inputs, "input_ids": other}, batch.valid)
    with torch.no_grad():
        one, two = (run_knocked_out(model, b, keep).last_hidden_state for b in (batch, changed))
    same = batch.inputs["attention_mask"].bool()
    same[row, gone] = False
    torch.testing.assert_close(one[same], two[same])
    assert not torch.allclose(one[row, gone], two[row, gone], atol=1e-3)  # it still sees itself


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_without_a_unit_a_causal_model_is_the_one_that_never_met_it(kind):
    """Slow reference: the model run without the token, the others told to stand where they stood."""
    model, batch = asked(kind, texts=["a funny movie ."])
    ids = batch.inputs["input_ids"]
    keep = torch.ones(batch.valid.shape)
    keep[0, 2] = 0
    left = torch.tensor([i for i in range(ids.shape[1]) if i != 2])
    with torch.no_grad():
        fast = run_knocked_out(model, batch, keep).last_hidden_state[0, left]
        slow = model.model(input_ids=ids[:, left], position_ids=left.unsqueeze(0)).last_hidden_state[0]
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


def test_without_a_unit_bert_is_the_one_that_never_met_it():
    model, batch = asked("bert", texts=["a funny movie ."])
    keep = torch.ones(batch.valid.shape)
    keep[0, 2] = 0
    left = torch.tensor([i for i in range(batch.valid.shape[1]) if i != 2])
    inputs = {"input_ids": batch.inputs["input_ids"][:, left], "position_ids": left.unsqueeze(0)}
    with torch.no_grad():
        fast = run_knocked_out(model, batch, keep).last_hidden_state[0, left]
        slow = model.model(**inputs).last_hidden_state[0]
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


def test_half_a_gate_halves_the_weight_of_a_key():
    model, batch = asked("bert", texts=["a funny movie ."], num_hidden_layers=1)
    keep = torch.ones(batch.valid.shape)
    keep[0, 3] = 0.5
    layer = model.model.encoder.layer[0].attention.self
    with torch.no_grad():
        embedded = model.model.embeddings(batch.inputs["input_ids"])
        query, key = (part(embedded).view(1, -1, 2, 8).transpose(1, 2) for part in (layer.query, layer.key))
        weights = (query @ key.transpose(2, 3) / 8**0.5).exp()
        weights[..., 3] *= torch.where(torch.arange(weights.shape[2]) == 3, 1.0, 0.5)
        weights = weights / weights.sum(-1, keepdim=True)
        model.model.set_attn_implementation("eager")
        inputs = {**batch.inputs, "output_attentions": True}
        found = run_knocked_out(model, Batch(inputs, batch.valid), keep).attentions[0]
    torch.testing.assert_close(found, weights, rtol=1e-4, atol=1e-5)


def test_weights_are_those_of_the_key_that_is_real_before_the_query_or_itself():
    keep, real = torch.tensor([[0.5, 0.0, 1.0, 0.7]]), torch.tensor([[True, True, True, False]])
    whole = [[1, 0, 1, 0], [0.5, 1, 1, 0], [0.5, 0, 1, 0], [0.5, 0, 1, 1]]
    causal = [[1, 0, 0, 0], [0.5, 1, 0, 0], [0.5, 0, 1, 0], [0.5, 0, 1, 1]]
    for expected, seen_before in ((whole, False), (causal, True)):
        assert torch.equal(attention_weights(keep, real, seen_before)[0], torch.tensor(expected).float())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_finite_gradient_reaches_the_gates(kind, share):
    model, batch = asked(kind)
    keep = torch.full(batch.valid.shape, share, requires_grad=True)
    with model.frozen():
        run_knocked_out(model, batch, keep).last_hidden_state[batch.inputs["attention_mask"].bool()].pow(
            2
        ).sum().backward()
    assert keep.grad.isfinite().all() and (keep.grad[~batch.valid] == 0).all()
    assert bool((keep.grad != 0).any()) == (share > 0)


def test_a_half_precision_model_is_given_its_own_kind_of_mask():
    model, batch = asked("llama")
    model.model.bfloat16()
    with torch.no_grad():
        states = run_knocked_out(model, batch, torch.zeros(batch.valid.shape)).last_hidden_state
    assert states.dtype == torch.bfloat16 and states.isfinite().all()


def test_running_masked_without_a_baseline_knocks_out():
    model, batch = adapt(make_model("bert")), asked("bert")[1]
    task = TextClassification(make_tokenizer(), [], [])
    keep = (torch.arange(batch.valid.shape[1]) % 2 == 0).expand(batch.valid.shape)
    with torch.no_grad():
        seen = look(model, task, batch)
        expected = run_knocked_out(model, batch, keep).logits
        assert torch.equal(run_masked(model, batch, seen.states, model.sites.names[0], keep, None).logits, expected)
    assert not torch.allclose(expected, seen.original["label"].raw, atol=1e-3)
