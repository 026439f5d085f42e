"""The exam every architecture sits: sites found by structure, states that can be read, replaced and resumed from."""

import pytest
import torch
import transformers
from torch import nn

from diffmask.errors import ModelError
from diffmask.masking.knockout import run_knocked_out
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.models.sites import capture, replace, resume
from diffmask.tasks.text import NextToken, TextClassification
from diffmask.types import Batch
from tiny_text import TEXTS, make_tokenizer

LAYERS, UNITS = 3, 7
SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
SMALL = {"vocab_size": 50, "max_position_embeddings": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PLAIN = {name: value for name, value in SIZES.items() if name not in ("cls_token_id", "sep_token_id")}
DEBERTA = {**PLAIN, "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]}
GPT2 = {
    "vocab_size": 50,
    "n_embd": 16,
    "n_layer": LAYERS,
    "n_head": 2,
    "n_positions": 40,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DISTIL = {**SMALL, "dim": 16, "n_layers": LAYERS, "n_heads": 2, "hidden_dim": 24}
OPT = {
    **SMALL,
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "ffn_dim": 24,
    "word_embed_proj_dim": 16,
}
T5 = {
    "vocab_size": 50,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": LAYERS,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
BART = {
    **SMALL,
    "d_model": 16,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS + 1,  # longer than the encoder's, and still not where the inputs are
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "forced_eos_token_id": 2,
}

ARCHITECTURES = {
    "BertForSequenceClassification": SIZES,
    "RobertaForSequenceClassification": SIZES,
    "DistilBertForSequenceClassification": DISTIL,
    "ElectraForSequenceClassification": SIZES,
    "AlbertForSequenceClassification": {**SIZES, "embedding_size": 8},
    "DebertaV2ForSequenceClassification": DEBERTA,
    "MPNetForSequenceClassification": SIZES,
    "ModernBertForSequenceClassification": SIZES,
    "GPT2LMHeadModel": GPT2,
    "GPTNeoXForCausalLM": PLAIN,
    "LlamaForCausalLM": {**PLAIN, "num_key_value_heads": 2},
    "Qwen2ForCausalLM": {**PLAIN, "num_key_value_heads": 2},
    "OPTForCausalLM": OPT,
    "T5ForConditionalGeneration": T5,
    "BartForConditionalGeneration": BART,
}


class LSTMClassifier(nn.Module):
    """The model without blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.answer = nn.Linear(16, 2)

    def forward(self, input_ids, attention_mask):
        states, _ = self.lstm(self.embedding(input_ids))
        shares = attention_mask / attention_mask.sum(1, keepdim=True)
        return self.answer((states * shares.unsqueeze(-1).to(states.dtype)).sum(1))


def build(name: str, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    if name == "LSTMClassifier":
        return LSTMClassifier().to(dtype).eval()
    model_class = getattr(transformers, name)
    return model_class(model_class.config_class(**ARCHITECTURES[name])).to(dtype).eval()


def make_batch(model: nn.Module, padding: str) -> Batch:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 50, (2, UNITS), generator=generator)
    mask = torch.ones_like(ids)
    if padding != "none":
        mask[1, slice(0, 2) if padding == "left" else slice(5, 7)] = 0
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.randint(3, 50, (2, 4), generator=generator)
    return Batch(inputs, mask.bool())


def answered(adapter: Adapter, batch: Batch) -> torch.Tensor:
    output = adapter(batch)
    return output if isinstance(output, torch.Tensor) else output.logits


def logits(adapter: Adapter, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        return answered(adapter, batch)


SCRIPTED = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # raised where it is imported


@pytest.fixture(
    params=[
        pytest.param(name, marks=[SCRIPTED] if name.startswith("Deberta") else [])
        for name in (*ARCHITECTURES, "LSTMClassifier")
    ]
)
def name(request):
    return request.param


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request):
    return request.param


@pytest.fixture(params=["none", "right", "left"])
def padding(request):
    return request.param


@pytest.fixture
def examined(name, dtype, padding):
    model = build(name, dtype)
    batch = make_batch(model, padding)
    return adapt(model, example=batch), batch


def widened(model: nn.Module) -> nn.Module:
    """Give a random model opinions, which differ with what it reads."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in (weight for weight in model.parameters() if weight.dim() > 1):
            weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    return model


def text_task(name: str, side: str, model: nn.Module) -> NextToken | TextClassification:
    writes = not name.endswith("ForSequenceClassification")
    typed = hasattr(model.config, "type_vocab_size") and "Deberta" not in name
    known = ["input_ids", "attention_mask", *(["token_type_ids"] if typed else [])]
    tokenizer = make_tokenizer(side, causal=writes, model_input_names=known)
    return (NextToken if writes else TextClassification)(tokenizer, TEXTS, TEXTS)


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_example_among_longer_ones_is_predicted_as_alone_whatever_side_its_tokenizer_pads(name, side):
    if name == "LSTMClassifier":
        pytest.skip("reads its padding")
    model = widened(build(name, torch.float32))
    task, adapter = text_task(name, side, model), adapt(model)

    def predicted(texts):
        batch = task.collate(texts)
        with torch.no_grad():
            return next(iter(task.read(adapter(batch), batch).values())).raw

    for row, text in enumerate(TEXTS):
        torch.testing.assert_close(predicted(TEXTS)[row], predicted([text])[0], rtol=1e-4, atol=1e-4)


def test_sites_are_the_embedding_what_enters_the_first_block_and_every_block(name):
    model = build(name, torch.float32)
    sites = adapt(model, example=make_batch(model, "none")).sites
    assert isinstance(sites[0].module, nn.Embedding)
    assert len(sites) == (2 if name == "LSTMClassifier" else LAYERS + 2)


def test_sites_are_found_without_running_the_model_though_not_how_often_a_block_runs(name):
    sites = adapt(build(name, torch.float32)).sites
    expected = {"LSTMClassifier": 2, "AlbertForSequenceClassification": 3}.get(name, LAYERS + 2)
    assert isinstance(sites[0].module, nn.Embedding) and len(sites) == expected
    assert all(isinstance(site.module, nn.LSTM) or site.side == "input" for site in sites[1:2])


def test_with_every_unit_kept_a_knockout_changes_nothing_or_is_refused(name, padding):
    model = build(name, torch.float32)
    batch = make_batch(model, padding)
    adapter = adapt(model, example=batch)
    try:
        with torch.no_grad():
            output = run_knocked_out(adapter, batch, batch.valid)
    except ModelError as error:
        assert "does not take one attention mask per query and key" in str(error)
        return
    found, original = output.logits, logits(adapter, batch)
    if found.dim() == 3:  # what a model says at padding does not matter
        found, original = found[batch.valid], original[batch.valid]
    torch.testing.assert_close(found, original, rtol=0, atol=1e-3 if padding == "left" else 1e-5)


def test_every_state_has_one_row_per_unit_and_replacing_it_by_itself_changes_nothing(examined):
    adapter, batch = examined
    with capture(adapter.sites) as states:
        original = logits(adapter, batch)
    for site in adapter.sites:
        assert states[site.name].shape[:2] == batch.valid.shape
        with replace(site, states[site.name]):
            assert torch.equal(logits(adapter, batch), original)
        with resume(site, states[site.name], states):
            assert torch.equal(logits(adapter, batch), original)


def test_another_state_changes_the_prediction_the_same_way_resumed_or_not(examined):
    adapter, batch = examined
    with capture(adapter.sites) as states:
        original = logits(adapter, batch)
    for site in adapter.sites:
        # Not by a constant, which a layer norm takes out again.
        other = states[site.name] * torch.linspace(-2, 2, states[site.name].shape[-1]).to(states[site.name])
        with replace(site, other):
            replaced = logits(adapter, batch)
        with resume(site, other, states):
            resumed = logits(adapter, batch)
        assert not torch.equal(replaced, original), site.name
        torch.testing.assert_close(resumed, replaced, rtol=1e-3, atol=1e-4)


def test_nothing_is_left_behind(examined):
    adapter, batch = examined
    with capture(adapter.sites) as states:
        logits(adapter, batch)
    with pytest.raises(RuntimeError, match="stop"), resume(adapter.sites[1], states[adapter.sites.names[1]], states):
        raise RuntimeError("stop")
    for module in adapter.model.modules():
        assert not module._forward_pre_hooks and "forward" not in vars(module)


def test_a_gradient_reaches_the_replaced_state_at_every_site(examined):
    adapter, batch = examined
    with adapter.frozen():
        with torch.no_grad(), capture(adapter.sites) as states:
            adapter(batch)
        for site in adapter.sites:
            state = states[site.name].clone().requires_grad_(True)
            with resume(site, state, states):
                answered(adapter, batch).float().pow(2).sum().backward()
            assert state.grad.isfinite().all() and (state.grad != 0).any(), site.name


def test_a_gradient_is_the_same_where_blocks_are_computed_again(examined):
    adapter, batch = examined
    first, slopes = adapter.sites[0], []
    for again in (False, True):
        with adapter.frozen(), adapter.recomputing(again):
            with torch.no_grad(), capture(adapter.sites) as states:
                adapter(batch)
            state = states[first.name].clone().requires_grad_(True)
            with replace(first, state):
                answered(adapter, batch).float().pow(2).sum().backward()
            slopes.append(state.grad)
    torch.testing.assert_close(*slopes)
