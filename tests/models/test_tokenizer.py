"""A model adapted with its tokenizer: the two must fit, and the model is run once to see what it calls when."""

import logging

import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BartConfig,
    BartForSequenceClassification,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    XLNetConfig,
    XLNetModel,
)

from diffmask.errors import DataError, ModelError, SiteError
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt, any_text, tell_padding
from diffmask.models.structure import position_count
from diffmask.tasks.text import NextToken, TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import check_fit, fit
from diffmask.training.saved import load_fit, save_fit
from tiny_text import (
    PIECES,
    SIZES,
    TEXTS,
    Counting,
    make_causal_classifier,
    make_model,
    make_tokenizer,
    make_writer,
)


def test_a_tokenizer_that_fits_is_taken_in_silence(caplog):
    with caplog.at_level(logging.WARNING):
        sites = adapt(make_model("bert"), make_tokenizer()).sites
    assert not caplog.text and sites.names == adapt(make_model("bert")).sites.names


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused_with_both_sizes():
    with pytest.raises(
        ModelError, match=r"14 tokens\) does not match BertForSequenceClassification.* has 9 tokens: load"
    ):
        adapt(make_model("bert", vocab_size=9), make_tokenizer())


def test_a_fit_refuses_it_too():
    model, task = adapt(make_model("bert", vocab_size=9)), TextClassification(make_tokenizer(), TEXTS, TEXTS)
    with pytest.raises(ModelError, match="does not match"):
        fit(model, task)


def test_a_tokenizer_with_far_fewer_tokens_is_suspicious(caplog):
    with caplog.at_level(logging.WARNING):
        adapt(make_model("bert", vocab_size=200), make_tokenizer())
    assert "14 tokens, padding 0) may not match BertForSequenceClassification (200 tokens, padding 0)" in caplog.text


def test_a_suspicion_is_said_once_for_each_tokenizer(caplog):
    tokenizer, other = make_tokenizer(), make_tokenizer()
    model = adapt(make_model("bert", vocab_size=200), tokenizer)
    check_fit(model, TextClassification(tokenizer, TEXTS, TEXTS))
    assert caplog.text.count("may not match") == 1
    check_fit(model, TextClassification(other, TEXTS, TEXTS))
    assert caplog.text.count("may not match") == 2


@pytest.mark.parametrize("thing", [42, object(), len])
def test_what_is_no_tokenizer_is_refused(thing):
    wanted = (
        f"takes a tokenizer after the model, got {type(thing).__name__}: load the one that was saved with the model"
    )
    with pytest.raises(ModelError, match=wanted):
        adapt(make_model("bert"), thing)


def test_a_vocabulary_that_was_rounded_up_is_not(caplog):
    with caplog.at_level(logging.WARNING):
        adapt(make_model("bert", vocab_size=len(PIECES) + 1), make_tokenizer())
    assert not caplog.text


def test_a_tokenizer_that_pads_with_another_token_is_suspicious(caplog):
    with caplog.at_level(logging.WARNING):
        adapt(make_model("bert"), make_tokenizer(pad_token="[SEP]"))
    assert "padding 2) may not match" in caplog.text and "padding 0): load its own" in caplog.text


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_classifier_that_does_not_know_its_padding_is_refused_with_the_line_that_tells_it(kind):
    model, tokenizer = make_causal_classifier(kind, pad_token_id=None), make_tokenizer(causal=True)
    wanted = r"ForSequenceClassification answers at .*: set model\.config\.pad_token_id = tokenizer\.pad_token_id"
    with pytest.raises(ModelError, match=wanted):
        adapt(model, tokenizer)
    with pytest.raises(ModelError, match=wanted):
        fit(adapt(model), TextClassification(tokenizer, TEXTS, TEXTS))
    model.config.pad_token_id = tokenizer.pad_token_id
    assert adapt(model, tokenizer).sites


def test_only_a_model_that_looks_for_padding_is_told_what_it_is():
    bert, gpt2 = make_model("bert", pad_token_id=None), make_causal_classifier(pad_token_id=None)
    for model in (bert, gpt2):
        tell_padding(model, make_tokenizer(pad_token="[SEP]"))
    assert bert.config.pad_token_id is None and gpt2.config.pad_token_id == 2


def test_a_model_that_declares_no_vocabulary_is_not_compared(caplog):
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.blocks = nn.Embedding(40, 4), nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

        def forward(self, input_ids, attention_mask):
            return self.blocks[1](self.blocks[0](self.embed(input_ids)))

    with caplog.at_level(logging.WARNING):
        sites = adapt(Plain(), make_tokenizer(causal=True)).sites
    assert not caplog.text and sites.names == ("embed", "blocks.0:input", "blocks.0", "blocks.1")


def test_one_block_that_is_used_many_times_gets_a_site_per_call_from_the_tokenizer_alone():
    torch.manual_seed(0)
    albert = AlbertForSequenceClassification(AlbertConfig(**{**SIZES, "num_hidden_layers": 3, "embedding_size": 8}))
    sites = adapt(albert, make_tokenizer()).sites
    assert len(sites) == 5 and [site.call for site in sites[-3:]] == [0, 1, 2]
    assert len({site.module for site in sites[-3:]}) == 1


def test_an_encoder_with_a_decoder_is_given_something_to_decode():
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=len(PIECES), pad_token_id=0, **sizes))
    tokenizer = make_tokenizer(causal=True)
    assert "decoder_input_ids" in any_text(t5, tokenizer).inputs
    assert [site.name.split(".")[0] for site in adapt(t5, tokenizer).sites] == ["encoder"] * 4


def test_a_classifier_that_looks_for_the_end_of_its_text_in_the_decoder_is_adapted():
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2}
    more = {"decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    bart = BartConfig(vocab_size=len(PIECES), eos_token_id=tokenizer.sep_token_id, pad_token_id=0, **sizes, **more)
    assert len(adapt(BartForSequenceClassification(bart), tokenizer).sites) == 4


def test_of_embeddings_with_the_same_weights_the_one_that_is_called_is_the_input():
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    encoder = T5EncoderModel(T5Config(vocab_size=len(PIECES), pad_token_id=0, **sizes))
    assert adapt(encoder, make_tokenizer(causal=True)).sites.names[0] == "encoder.embed_tokens"


@pytest.mark.parametrize(("name", "positions"), [("bert", 24), ("gpt2", 24), ("llama", 24)])
def test_a_model_says_how_many_positions_it_takes_learned_or_rotated(name, positions):
    assert adapt(make_model(name)).positions == positions


def test_a_model_whose_positions_have_no_end_says_none():
    assert adapt(make_writer("t5")).positions is None
    assert position_count(XLNetModel(XLNetConfig(vocab_size=9, d_model=8, n_layer=2, n_head=2, d_inner=8))) is None


def test_positions_before_the_first_real_one_do_not_count():
    roberta = RobertaModel(RobertaConfig(**{**SIZES, "pad_token_id": 1}))
    assert adapt(roberta).positions == 22


def test_a_text_longer_than_the_model_is_cut_though_the_tokenizer_knows_no_limit(caplog):
    tokenizer = make_tokenizer()
    tokenizer.model_max_length = int(1e30)
    model, task = adapt(make_model("bert"), tokenizer), TextClassification(tokenizer, TEXTS, TEXTS)
    fitted = fit(model, task, recipe("text", steps=2, ablation_steps=1, batch_size=4))
    with caplog.at_level(logging.WARNING):
        (found,) = explain(fitted, ["a " * 40])
    assert "has 42 tokens and the model takes 24" in caplog.text and len(found.units) == 24


def test_so_is_one_for_a_model_that_rotates_positions_also_when_its_probe_is_loaded(caplog, tmp_path):
    tokenizer = make_tokenizer("left", causal=True, longest=int(1e30))
    model, prompts = adapt(make_model("llama"), tokenizer), [f"{text} a" for text in TEXTS]
    fitted = fit(model, NextToken(tokenizer, prompts, prompts), recipe("text", steps=2, ablation_steps=1, batch_size=4))
    save_fit(fitted, tmp_path / "probe")
    loaded = load_fit(tmp_path / "probe", model, NextToken(tokenizer, [], []))
    for probe in (fitted, loaded):
        caplog.clear()
        (found,) = explain(probe, ["a " * 40])
        assert "has 41 tokens and the model takes 24" in caplog.text and len(found.units) == 22
    with pytest.raises(DataError, match="takes 24"):
        explain(load_fit(tmp_path / "probe", model, NextToken(tokenizer, [], [], strict=True)), ["a " * 40])


def test_the_model_runs_once_on_the_tokenizers_text_or_on_the_example_if_there_is_one():
    model = Counting(make_model("bert"))
    adapt(model, make_tokenizer())
    assert model.passes == 1
    example = TextClassification(make_tokenizer(), [], []).collate(TEXTS)
    adapt(model, make_tokenizer(), example=example)
    assert model.passes == 2
    adapt(model)
    assert model.passes == 2


def test_running_it_leaves_dropout_as_it_was():
    model = make_model("bert").train()
    adapt(model, make_tokenizer())
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("sites", [["embed"], "embed", ("embed",)])
def test_sites_in_the_place_of_the_tokenizer_are_noticed(tower, sites):
    with pytest.raises(SiteError, match=r"takes a tokenizer after the model, got .*embed.*: name sites with sites=\["):
        adapt(tower, sites)


def test_one_site_is_still_a_list_of_sites(tower):
    with pytest.raises(SiteError, match=r"got the string 'embed': write sites=\['embed'\]"):
        adapt(tower, sites="embed")


def test_an_adapter_says_whether_the_model_is_causal_and_what_it_computes_in():
    assert [adapt(make_model(kind)).causal for kind in ("bert", "llama", "gpt2")] == [False, True, True]
    assert adapt(make_model("bert").bfloat16()).dtype == torch.bfloat16
    assert adapt(make_model("bert")).dtype == torch.float32
