"""Classifiers that read a text twice: what is dropped is dropped in both readings."""

import pytest
import torch
import transformers
from transformers.models.bart.modeling_bart import BartEncoder

from diffmask.errors import ModelError
from diffmask.explaining.explain import explain
from diffmask.masking.knockout import run_knocked_out
from diffmask.models.adapting import adapt
from diffmask.models.sites import capture, replace, resume
from diffmask.tasks.text import SpanAnswer, TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.step import look
from diffmask.types import Batch
from tiny_text import make_tokenizer

TEXTS = ["a fast movie .", "what fun what ?", "funny movie ."]
SIZES = {"vocab_size": 14, "d_model": 16, "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
T5 = {**SIZES, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "initializer_factor": 10.0}
PARTS = {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
BART = {**SIZES, **PARTS, "max_position_embeddings": 40, "bos_token_id": 1, "init_std": 0.5}
MODELS = {
    "T5ForSequenceClassification": T5,
    "T5ForQuestionAnswering": T5,
    "BartForSequenceClassification": BART,
    "BartForQuestionAnswering": BART,
    "MBartForSequenceClassification": BART,
}


def build(name):
    torch.manual_seed(6)
    model_class = getattr(transformers, name)
    return model_class(model_class.config_class(**MODELS[name])).eval()


def task_for(name):
    make, texts = (
        (SpanAnswer, [(text, "a movie .") for text in TEXTS]) if "Answer" in name else (TextClassification, TEXTS)
    )
    return make(make_tokenizer(), texts, texts)


@pytest.mark.parametrize("name", MODELS)
def test_two_texts_of_which_nothing_is_left_are_answered_alike(name):
    model, task = adapt(build(name), make_tokenizer()), task_for(name)
    seen = look(model, task, task.collate(task.train[:2]))
    with torch.no_grad(), model.frozen():
        masked = seen.masked_at(model.sites[0].name, torch.zeros_like(seen.batch.valid), torch.zeros(16))
    one, other = next(iter(masked.values())).log_probs()
    before, after = next(iter(seen.original.values())).log_probs()
    # MBART's decoder begins with the last token of the text, which both have in common.
    torch.testing.assert_close(one, other)
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("name", ["T5ForSequenceClassification", "BartForSequenceClassification"])
def test_another_text_put_in_its_place_is_answered_as_that_text(name):
    """The slow way: the model reads the other text."""
    model, task = adapt(build(name), make_tokenizer()), task_for(name)
    one, other = (task.collate([text]) for text in TEXTS[:2])
    site = model.sites[0]
    with torch.no_grad(), model.frozen():
        with capture(model.sites) as states:
            model(one)
        with capture([site]) as wanted:
            expected = model(other).logits
        for put in (replace(site, wanted[site.name]), resume(site, wanted[site.name], states)):
            with put:
                torch.testing.assert_close(model(one).logits, expected)


def test_a_part_that_reads_something_of_its_own_is_let_be():
    model, ids = adapt(build("T5ForSequenceClassification")), torch.tensor([[4, 5, 6, 2]])
    other = {"decoder_input_ids": torch.tensor([[2, 9, 8, 7]])}
    twice, apart = (Batch({"input_ids": ids, **more}, torch.ones_like(ids).bool()) for more in ({}, other))
    site, table = model.sites[0], model.model.get_decoder().get_input_embeddings()

    def read_again(batch):
        with torch.no_grad(), replace(site, torch.zeros(1, 4, 16)), capture([site.echo]) as states:
            model(batch)
        return states[site.echo.name]

    torch.testing.assert_close(read_again(apart), table(other["decoder_input_ids"]))
    assert torch.equal(read_again(twice)[:, 0], table(torch.tensor([2]))) and not read_again(twice)[:, 1:].any()


def test_two_embeddings_are_refused():
    model = build("T5ForSequenceClassification")
    decoder = model.get_decoder().get_input_embeddings()
    decoder.weight = torch.nn.Parameter(decoder.weight.detach().clone())
    with pytest.raises(ModelError, match=r"reads a text in its encoder and again in its decoder, whose embedding is"):
        adapt(model, make_tokenizer())


@pytest.mark.parametrize("kind", ["T5ForConditionalGeneration", "BartForConditionalGeneration"])
def test_what_a_model_writes_is_no_echo(kind):
    settings = T5 if kind.startswith("T5") else BART
    model_class = getattr(transformers, kind)
    assert adapt(model_class(model_class.config_class(**settings)), make_tokenizer()).sites[0].echo is None


@pytest.mark.parametrize("cache", ["off", "memory"])
def test_what_is_verified_is_an_answer_to_both_readings(cache, caplog):
    """The slow way: both parts are given what they would embed, with the baseline where a token was dropped."""
    model, task = adapt(build("BartForSequenceClassification"), make_tokenizer()), task_for("Bart")
    settings = {"steps": 4, "batch_size": 2, "ablation_steps": 2, "validate_every": 4, "cache": cache}
    fitted = fit(model, task, recipe("text", **settings))
    assert "reads the text again" not in caplog.text
    with torch.no_grad():  # so that some are kept
        depth = fitted.probe.depth_count - 1
        said = fitted.probe.votes(look(model, task, task.collate(TEXTS[:1])).reading, [depth])[0].logits
        fitted.probe.shift.add_(fitted.probe.gates[depth].logit_of(0.5) - said.median())
    found = explain(fitted, TEXTS[:1])[0]
    bart, ids = model.model, task.collate(TEXTS[:1]).inputs["input_ids"]
    table, baseline = bart.get_input_embeddings(), fitted.probe.baseline(0)
    read = torch.where(found.kept.unsqueeze(-1), table(ids), baseline)
    again = torch.cat([table(torch.tensor([[2]])), read[:, :-1]], dim=1)
    with torch.no_grad():
        states = bart.model(inputs_embeds=read, decoder_inputs_embeds=again).last_hidden_state
        expected = bart.classification_head(states[:, -1]).log_softmax(-1)  # at the end of the text
        before = bart(input_ids=ids).logits.log_softmax(-1)
    assert 0 < found.kept.sum() < found.kept.numel()
    assert found.verification.divergence == pytest.approx(float((before.exp() * (before - expected)).sum()), abs=1e-5)


def test_hidden_states_beside_which_a_text_is_read_again_are_warned_of(caplog):
    model, task = adapt(build("BartForSequenceClassification"), make_tokenizer()), task_for("Bart")
    fit(model, task, recipe("text", kind="hidden", steps=2, batch_size=2, ablation_steps=1, validate_every=2))
    assert "reads the text again in its decoder: what is dropped at model.encoder" in caplog.text


def test_an_encoder_that_borrows_the_configuration_of_both_reads_once():
    class Own(transformers.BartPreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.encoder, self.head = BartEncoder(config), torch.nn.Linear(16, 2)

        def forward(self, input_ids, attention_mask=None, **_):
            return self.head(self.encoder(input_ids, attention_mask).last_hidden_state[:, 0])

    torch.manual_seed(0)
    model = adapt(Own(transformers.BartConfig(**BART)).eval(), make_tokenizer())
    ids = torch.tensor([[4, 5, 6, 2]])
    batch = Batch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, torch.ones_like(ids).bool())
    assert model.sites[0].echo is None
    with torch.no_grad(), model.frozen():
        torch.testing.assert_close(run_knocked_out(model, batch, batch.valid), model(batch))
