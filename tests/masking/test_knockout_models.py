"""Knocking out: which models can, which are told that they cannot, and a probe that does."""

import pytest
import torch
import transformers

from diffmask.errors import ModelError, SettingError
from diffmask.explaining.explain import explain
from diffmask.gates.probe import ProbeConfig
from diffmask.masking.knockout import run_knocked_out
from diffmask.models.adapting import adapt
from diffmask.models.ahead import sees_ahead
from diffmask.models.structure import input_part
from diffmask.tasks.text import NextToken
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.saved import load_fit, save_fit
from diffmask.types import Batch
from tiny_text import SIZES, TEXTS, make_model, make_tokenizer
from toys import evidence_model, evidence_task


def test_a_model_without_an_attention_mask_gets_told_what_it_takes():
    model, task = evidence_model(), evidence_task()
    with pytest.raises(
        ModelError, match=r"needs a model that takes an attention_mask .*Evidence is given tokens, valid"
    ):
        run_knocked_out(model, task.collate([0, 1]), torch.ones(2, 6))


def test_a_model_that_takes_only_one_mask_per_key_is_named():
    class OnePerKey(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(14, 3)

        def forward(self, input_ids, attention_mask):
            return (self.embed(input_ids) * attention_mask.unsqueeze(-1)).sum(1)

    mask = torch.ones(2, 5, dtype=torch.long)
    batch = Batch({"input_ids": mask, "attention_mask": mask}, mask.bool())
    with pytest.raises(ModelError, match=r"OnePerKey does not take one attention mask per query and key.*use removal"):
        run_knocked_out(adapt(OnePerKey()), batch, torch.ones(2, 5))


WINDOWED = {
    "ModernBertForSequenceClassification": {"local_attention": 4, "cls_token_id": 1, "sep_token_id": 2},
    "MistralForCausalLM": {"sliding_window": 3, "num_key_value_heads": 2},
    "Gemma3ForCausalLM": {"sliding_window": 3, "num_key_value_heads": 2, "head_dim": 8},
    "Llama4ForCausalLM": {
        **{"attention_chunk_size": 3, "num_key_value_heads": 2, "head_dim": 8},
        **{"intermediate_size_mlp": 24, "num_local_experts": 2},
    },
    "Qwen2ForCausalLM": {
        **{"sliding_window": 3, "use_sliding_window": True},
        **{"max_window_layers": 0, "num_key_value_heads": 2},
    },
}


def windowed(name, count, **changes):
    torch.manual_seed(0)
    model_class = getattr(transformers, name)
    model = adapt(model_class(model_class.config_class(**{**SIZES, **WINDOWED[name], **changes})).eval())
    ids = torch.randint(4, 14, (1, count))
    return model, Batch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, torch.ones_like(ids).bool())


@pytest.mark.parametrize("name", WINDOWED)
def test_a_text_longer_than_the_window_of_some_layers_is_refused(name):
    model, batch = windowed(name, 20)
    wanted = rf"{name} has layers that see [23] positions at a time, fewer than the 20 of this text.*use removal = base"
    with pytest.raises(ModelError, match=wanted):
        run_knocked_out(model, batch, batch.valid)


@pytest.mark.parametrize("name", WINDOWED)
def test_a_text_as_long_as_the_window_is_run_as_ever(name):
    model, batch = windowed(name, model_window(name))
    with torch.no_grad():
        torch.testing.assert_close(run_knocked_out(model, batch, batch.valid).logits, model(batch).logits)


def model_window(name):
    """Return how far a layer sees: ModernBERT's window counts both sides."""
    settings = WINDOWED[name]
    return settings["local_attention"] // 2 if "local_attention" in settings else 3


def test_a_window_that_is_switched_off_refuses_nothing():
    model, batch = windowed("Qwen2ForCausalLM", 20, use_sliding_window=False)
    with torch.no_grad():
        torch.testing.assert_close(run_knocked_out(model, batch, batch.valid).logits, model(batch).logits)


def test_the_window_of_the_text_part_of_a_larger_model_counts_too():
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings = transformers.Gemma3Config(
        text_config=transformers.Gemma3TextConfig(**SIZES, **WINDOWED["Gemma3ForCausalLM"]),
        vision_config=transformers.SiglipVisionConfig(**sizes, image_size=8, patch_size=4),
        **{"image_token_index": 13, "mm_tokens_per_image": 4},
    )
    model = adapt(transformers.Gemma3ForConditionalGeneration(settings).eval())
    _, batch = windowed("MistralForCausalLM", 8)
    with pytest.raises(ModelError, match="has layers that see 3 positions at a time, fewer than the 8 of this text"):
        run_knocked_out(model, batch, batch.valid)


def test_an_encoder_that_has_a_decoder_is_refused():
    torch.manual_seed(0)
    sizes = {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    model = adapt(transformers.BartModel(transformers.BartConfig(vocab_size=14, d_model=16, **sizes)).eval())
    ids = torch.randint(4, 14, (1, 6))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": ids}
    batch = Batch(inputs, torch.ones(1, 6, dtype=torch.bool))
    assert input_part(model.model)[1] is model.model.encoder
    with pytest.raises(
        ModelError, match=r"BartModel does not take one attention mask.*as its decoder attends through.*use removal"
    ):
        run_knocked_out(model, batch, batch.valid)


CAUSAL = {"n_layers": 2, "n_heads": 2, "d_model": 16, "vocab_size": 14, "max_seq_len": 24}
UNSAID = {  # that they see no later position is nowhere in their modules
    "XGLMForCausalLM": {"vocab_size": 14, "d_model": 16, "ffn_dim": 24, "num_layers": 2, "attention_heads": 2},
    "MptForCausalLM": CAUSAL,
    "CodeGenForCausalLM": {"vocab_size": 14, "n_embd": 16, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
}


@pytest.mark.parametrize("name", UNSAID)
def test_a_causal_model_that_does_not_say_so_is_found_out(name):
    torch.manual_seed(0)
    model_class = getattr(transformers, name)
    config = model_class.config_class(**UNSAID[name], pad_token_id=0, bos_token_id=1, eos_token_id=2)
    model = adapt(model_class(config).eval())
    ids = torch.randint(4, 14, (2, 6))
    mask = torch.ones_like(ids)
    mask[0, 2:] = 0
    batch = Batch({"input_ids": ids, "attention_mask": mask}, mask.bool())
    with torch.no_grad():
        found, original = run_knocked_out(model, batch, batch.valid).logits, model(batch).logits
    torch.testing.assert_close(found[mask.bool()], original[mask.bool()])


@pytest.mark.parametrize(("kind", "ahead"), [("bert", True), ("llama", False), ("gpt2", False)])
def test_whether_positions_see_later_ones_is_found_out_once(kind, ahead):
    model, ids = adapt(make_model(kind)), torch.randint(4, 14, (2, 6))
    mask = torch.ones_like(ids)
    mask[0, 1:] = 0
    one, both = (Batch({"input_ids": ids[:n], "attention_mask": mask[:n]}, mask[:n].bool()) for n in (1, 2))
    assert sees_ahead(model, one) == (not model.causal) and model.sees_ahead is None  # one position tells nothing
    assert sees_ahead(model, both) == ahead == model.sees_ahead
    model.model = None
    assert sees_ahead(model, both) == ahead


def test_knocking_out_is_for_the_input_alone():
    with pytest.raises(SettingError, match="knockout hides input units from all layers: use it with kind = input"):
        ProbeConfig(kind="hidden", removal="knockout")


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_probe_that_knocks_out_is_fitted_explains_and_is_loaded_again(tmp_path, unit):
    tokenizer = make_tokenizer("left", causal=True)
    model = adapt(make_model("llama"), tokenizer)
    task = NextToken(
        tokenizer, ["a funny movie .", "a fast enjoyable movie", "fast . funny movie"] * 4, TEXTS[2:], unit=unit
    )
    settings = {"margin": 1.0, "steps": 6, "batch_size": 4, "guard": False, "depths_per_step": 2}
    fitted = fit(model, task, recipe(removal="knockout", **settings))
    assert fitted.probe.baseline(0) is None and not len(fitted.probe.baselines.vectors)
    save_fit(fitted, tmp_path / "probe.safetensors")
    loaded = load_fit(tmp_path / "probe.safetensors", model, task)
    one, other = (explain(f, TEXTS[2:])[0] for f in (fitted, loaded))
    assert torch.equal(one.scores, other.scores) and one.verification == other.verification
    assert one.units == tuple(task.units(TEXTS[2:])[0]) and one.verification is not None


@pytest.mark.parametrize(
    "sites",
    [
        ["bert.embeddings.word_embeddings", "bert.encoder.layer.0:input"],
        ["bert.embeddings.word_embeddings", "bert.embeddings"],
        ["bert.embeddings"],
        ["bert.encoder.layer.1", "bert.embeddings.word_embeddings"],
    ],
)
def test_sites_between_which_nothing_attends_do_not_make_a_model_causal(sites):
    model, ids = adapt(make_model("bert"), sites=sites), torch.randint(4, 14, (2, 6))
    batch = Batch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, torch.ones_like(ids).bool())
    with torch.no_grad(), model.frozen():
        torch.testing.assert_close(run_knocked_out(model, batch, batch.valid).logits, model(batch).logits)
    assert model.sees_ahead


def test_a_model_of_one_site_is_what_its_modules_say():
    model, ids = adapt(make_model("llama"), sites=["model.layers.1"]), torch.randint(4, 14, (1, 4))
    batch = Batch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, torch.ones_like(ids).bool())
    model.passed = ()
    assert not sees_ahead(model, batch) and model.sees_ahead is None


def test_a_block_that_is_run_again_and_again_is_no_two_ends():
    """Replaced at each of its calls, it would start anew, and every position would change."""

    class Again(torch.nn.Module):
        is_causal = True

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.layers = torch.nn.Embedding(14, 3), torch.nn.ModuleList([Layer(), Layer()])

        def forward(self, input_ids, attention_mask):
            state = self.embed(input_ids)
            for _ in range(3):
                state = self.layers[1](state)
            return state

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = torch.nn.Linear(3, 3)

        def forward(self, state):
            return self.mix(state.cumsum(1)).tanh()

    torch.manual_seed(0)
    model, ids = adapt(Again(), sites=["layers.1"]), torch.randint(4, 14, (1, 4))
    model.passed = ()
    batch = Batch({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, torch.ones_like(ids).bool())
    assert not sees_ahead(model, batch) and model.sees_ahead is None
