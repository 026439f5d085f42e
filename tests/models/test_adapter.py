"""Any PyTorch model gets its sites by structure or by name, and is handed back as it came."""

import types
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    RwkvConfig,
    RwkvForCausalLM,
    SiglipVisionConfig,
    T5Config,
    T5EncoderModel,
)

from diffmask.errors import SiteError
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.models.running import writes_apart
from diffmask.models.sites import Site, capture, resume
from diffmask.types import Batch


class Branches(nn.Module):
    """Has a short list, a list of unequal modules, and the one that matters."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.mixed = nn.ModuleList([nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh(), nn.Tanh()])
        self.words, self.positions = nn.Embedding(3, 2), nn.Embedding(5, 2)
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(4))


def test_sites_are_the_first_embedding_what_enters_the_first_block_and_the_longest_list_of_equal_blocks():
    names = adapt(Branches()).sites.names
    assert names == ("words", "layers.0:input", "layers.0", "layers.1", "layers.2", "layers.3")


def test_a_model_without_blocks_has_its_embedding():
    assert adapt(nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 2))).sites.names == ("0",)


def test_a_model_without_structure_says_how_to_name_its_sites():
    with pytest.raises(SiteError, match=r"no sites found in Sequential: .*adapt\(model, sites=\["):
        adapt(nn.Sequential(nn.Linear(2, 2)))


def test_sites_are_named_by_module_with_a_side(tower):
    sites = adapt(tower, sites=["embed", "blocks.1:input", "head:output", Site("mine", tower.head)]).sites
    assert [(site.name, site.module, site.side) for site in sites] == [
        ("embed", tower.embed, "output"),
        ("blocks.1:input", tower.blocks[1], "input"),
        ("head:output", tower.head, "output"),
        ("mine", tower.head, "output"),
    ]


def test_a_module_that_does_not_exist_gets_the_nearest_name(tower):
    with pytest.raises(SiteError, match=r"no module in Tower named 'block\.1'; did you mean 'blocks\.1'\?"):
        adapt(tower, sites=["block.1"])


@pytest.mark.parametrize("name", ["", ":input"])
def test_the_model_itself_is_no_site(tower, name):
    with pytest.raises(SiteError, match="no module in Tower named ''"):
        adapt(tower, sites=[name])


def test_a_module_has_only_an_input_and_an_output(tower):
    with pytest.raises(SiteError, match="site 'head:grad': a module has an ':input' and an ':output', not 'grad'"):
        adapt(tower, sites=["head:grad"])


def test_an_example_puts_sites_in_the_order_they_run(tower, batch):
    names = ["head:input", "blocks.2", "embed", "blocks.0:input"]
    assert adapt(tower, sites=names, example=batch).sites.names == ("embed", "blocks.0:input", "blocks.2", "head:input")


def test_a_site_the_example_does_not_reach_is_named(batch):
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Embedding(7, 2), nn.Embedding(7, 2)

        def forward(self, tokens):
            return self.used(tokens)

    with pytest.raises(SiteError, match="site 'unused' was not reached when the model ran on the example: leave it"):
        adapt(Lazy(), sites=["used", "unused"], example=batch)


def test_an_adapter_runs_the_model_on_the_batchs_inputs(adapter, tower, batch):
    assert torch.equal(adapter(batch), tower(batch.inputs["tokens"]))


def test_freezing_switches_dropout_and_weight_gradients_off_and_puts_each_module_back(adapter, tower):
    tower.train()
    tower.blocks[1].eval()
    tower.head.requires_grad_(False)
    modes, grads = [m.training for m in tower.modules()], [p.requires_grad for p in tower.parameters()]
    with pytest.raises(KeyError), adapter.frozen():
        assert not any(m.training for m in tower.modules()) and not any(p.requires_grad for p in tower.parameters())
        raise KeyError
    assert [m.training for m in tower.modules()] == modes and [p.requires_grad for p in tower.parameters()] == grads


def test_a_frozen_model_keeps_nothing_of_one_run_for_the_next():
    small = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "attention_hidden_size": 8}
    model = RwkvForCausalLM(RwkvConfig(**small)).eval()  # changes, in place, the state it keeps
    batch = Batch({"input_ids": torch.arange(12).view(2, 6)}, torch.ones(2, 6, dtype=torch.bool))
    adapter = adapt(model, example=batch)
    with adapter.frozen():
        assert not model.config.use_cache
        with capture(adapter.sites) as states:
            answer = adapter(batch)
        assert answer.state is None
        first = states[adapter.sites[0].name].clone().requires_grad_(True)
        with resume(adapter.sites[0], first, states):
            again = adapter(batch).logits
        torch.testing.assert_close(again, answer.logits)
        again.sum().backward()
    assert first.grad.isfinite().all() and model.config.use_cache


def test_a_cache_is_switched_off_wherever_it_is_set_and_on_again_whatever_happens():
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            small = {"vocab_size": 20, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 8}
            self.config, self.inner = Own(), GPT2LMHeadModel(GPT2Config(**small)).eval()

        def forward(self, input_ids):
            return self.inner(input_ids)

    @dataclass(frozen=True)
    class Own:  # not one of transformers', and nothing of it is touched
        use_cache: bool = True

    model = Around()
    with pytest.raises(KeyError), adapt(model).frozen():
        assert model(torch.ones(1, 4, dtype=torch.long)).past_key_values is None and model.config.use_cache
        raise KeyError
    assert model.inner.config.use_cache


def test_a_fingerprint_tells_two_models_apart_and_knows_the_same_one(adapter, tower, batch):
    before = adapter.fingerprint
    adapter(batch)
    tower.train()
    assert adapter.fingerprint == before == Adapter(tower, [Site("x", tower.head)]).fingerprint
    with torch.no_grad():
        tower.head.bias[0] += 1e-3
    assert adapter.fingerprint != before


def test_a_fingerprint_reads_any_kind_of_weights():
    model = nn.Sequential(nn.Embedding(3, 2, dtype=torch.bfloat16), nn.BatchNorm1d(2), nn.Embedding(5000, 3))
    model.register_buffer("nothing", torch.zeros(0))
    model.register_buffer("flags", torch.zeros(3, dtype=torch.bool))
    before = adapt(model).fingerprint
    model.flags[1] = True
    assert adapt(model).fingerprint != before


def test_batches_may_hold_more_than_tensors(tower):
    class Flagged(nn.Module):
        def forward(self, x, double=False):
            return 2 * x if double else x

    model = Flagged()
    x = torch.ones(1, 2)
    assert Adapter(model, [Site("it", model)])(Batch({"x": x, "double": True}, x.bool())).sum() == 4


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_freezing_touches_no_switch_of_the_machine_for_longer_than_it_lasts(dropout):
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(2, 2, num_layers=2, dropout=dropout, batch_first=True)

    cudnn, mha = torch.backends.cudnn, torch.backends.mha
    kept = cudnn.deterministic, cudnn.benchmark
    before = cudnn.enabled, mha.get_fastpath_enabled()
    with pytest.raises(KeyError), adapt(Recurrent()).frozen():
        assert (cudnn.deterministic, cudnn.benchmark) == kept
        assert cudnn.enabled == (before[0] and not dropout)  # cuDNN gives no gradient in eval mode
        assert not mha.get_fastpath_enabled()
        raise KeyError
    assert (cudnn.deterministic, cudnn.benchmark) == kept
    assert (cudnn.enabled, mha.get_fastpath_enabled()) == before


def test_running_the_example_moves_no_running_statistics(batch):
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.norm = nn.Embedding(7, 5), nn.BatchNorm1d(5)

        def forward(self, tokens):
            return self.norm(self.embed(tokens))

    model = Normed().train()
    before = {name: buffer.clone() for name, buffer in model.norm.named_buffers()}
    adapt(model, sites=["embed", "norm"], example=batch)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.norm.named_buffers())
    assert model.norm.training


def test_a_fingerprint_knows_every_single_weight_and_the_class():
    class Other(Branches):
        pass

    model, other = Branches(), Other()
    other.load_state_dict(model.state_dict())
    before = adapt(model).fingerprint
    assert adapt(other).fingerprint != before
    for parameter in model.parameters():
        with torch.no_grad():
            parameter.view(-1)[-1] += 1e-6
        assert adapt(model).fingerprint != before
        before = adapt(model).fingerprint


def test_a_fingerprint_knows_the_order_of_the_weights():
    model = nn.Sequential(nn.Embedding(8192, 2))
    before = adapt(model).fingerprint
    with torch.no_grad():
        model[0].weight[[0, 8191]] = model[0].weight[[8191, 0]]
    assert adapt(model).fingerprint != before


def test_a_fingerprint_reads_complex_numbers():
    model = nn.Sequential(nn.Embedding(3, 2))
    model.register_buffer("rotations", torch.zeros(3, dtype=torch.complex128))
    assert adapt(model).fingerprint


class Mixture(nn.Module):
    """A block that is itself a longer list of equal modules."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(2, 2) for _ in range(8))


def test_the_experts_inside_a_block_are_no_blocks():
    model = nn.Module()
    model.words, model.layers = nn.Embedding(3, 2), nn.ModuleList(Mixture() for _ in range(3))
    assert adapt(model).sites.names == ("words", "layers.0:input", "layers.0", "layers.1", "layers.2")


class Unrolled(nn.Module):
    """A list that holds the same block three times."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(7, 2), nn.ModuleList([nn.Linear(2, 2)] * 3)

    def forward(self, tokens):
        state = self.embed(tokens)
        for block in self.blocks:
            state = block(state)
        return state


def test_a_list_of_embeddings_is_no_list_of_blocks():
    class Page(nn.Module):
        """Like MarkupLM, which has an embedding for every level of a page's tree."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.levels = nn.Embedding(7, 2), nn.ModuleList(nn.Embedding(3, 2) for _ in range(9))
            self.blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))

    assert adapt(Page()).sites.names == ("words", "blocks.0:input", "blocks.0", "blocks.1")


class Block(nn.Sequential):
    """A block of one kind."""


class Turns(nn.Module):
    """Blocks of two kinds in turn, as in models some of whose layers attend; the second kind may be passed by."""

    def __init__(self, skip: bool = False) -> None:
        super().__init__()
        self.words, self.skip = nn.Embedding(7, 2), skip
        kinds = (Block, nn.Sequential, Block)
        self.layers = nn.ModuleList(kind(nn.Linear(2, 2), nn.Tanh()) for kind in kinds)
        self.steps = nn.ModuleList([nn.Tanh(), nn.ReLU()] * 4)  # longer, and of two kinds, but they hold nothing

    def forward(self, tokens):
        state = self.words(tokens)
        for layer in self.layers:
            state = state if self.skip and type(layer) is nn.Sequential else layer(state)
        return state


def test_blocks_may_be_of_several_kinds_in_turn(batch):
    every = ("words", "layers.0:input", "layers.0", "layers.1", "layers.2")
    assert adapt(Turns()).sites.names == adapt(Turns(), example=batch).sites.names == every


def test_a_block_that_was_found_and_is_passed_by_is_no_site_and_one_that_was_named_is_missed(batch, caplog):
    with caplog.at_level("WARNING"):
        adapt(Turns(skip=True), example=batch)
    assert "the model passes by layers.1 on the example" in caplog.text
    assert adapt(Turns(skip=True), example=batch).sites.names == ("words", "layers.0:input", "layers.0", "layers.2")
    for others in ([], ["layers.0"]):
        with pytest.raises(SiteError, match=r"site .layers\.1. was not reached"):
            adapt(Turns(skip=True), sites=["words", *others, "layers.1"], example=batch)


class Headed(nn.Module):
    """A model around one of transformers', with a list of heads that is longer than its list of blocks."""

    def __init__(self, inner: nn.Module, own: bool = False) -> None:
        super().__init__()
        self.own = nn.Embedding(20, 8) if own else None
        self.inner, self.heads = inner, nn.ModuleList(nn.Linear(8, 2) for _ in range(5))

    def forward(self, input_ids):
        how = {"input_ids": input_ids} if self.own is None else {"inputs_embeds": self.own(input_ids)}
        state = self.inner(**how).last_hidden_state
        return sum(head(state) for head in self.heads)


BERT = BertConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8, vocab_size=20)
T5 = T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=2, num_heads=2, vocab_size=20)


def test_a_list_of_heads_around_a_model_is_not_its_blocks():
    torch.manual_seed(0)
    batch = Batch({"input_ids": torch.arange(12).view(2, 6)}, torch.ones(2, 6, dtype=torch.bool))
    names = adapt(Headed(BertModel(BERT)).eval(), example=batch).sites.names
    assert len(names) == 4 and all(name.startswith("inner.") for name in names) and "embed" in names[0]


def test_a_model_that_holds_what_the_inputs_enter_under_another_name_has_the_blocks():
    model = Headed(T5EncoderModel(T5)).eval()
    assert adapt(model).blocks == list(model.inner.encoder.block)
    batch = Batch({"input_ids": torch.arange(12).view(2, 6)}, torch.ones(2, 6, dtype=torch.bool))
    with pytest.raises(SiteError, match=r"site 'inner\.shared' was not reached"):  # its twin in the encoder is
        adapt(model, example=batch)
    assert adapt(model, sites=["inner.encoder.embed_tokens"], example=batch).sites.names == (
        "inner.encoder.embed_tokens",
    )


def test_a_model_that_is_given_embeddings_from_outside_keeps_its_blocks_as_the_longest_list():
    deeper = BertConfig(**{**BERT.to_dict(), "num_hidden_layers": 6})
    names = adapt(Headed(BertModel(deeper), own=True)).sites.names
    blocks = [f"inner.encoder.layer.{number}" for number in range(6)]
    assert list(names) == ["own", f"{blocks[0]}:input", *blocks]


def test_an_embedding_that_was_found_and_is_not_reached_is_missed(batch):
    class Tagged(Turns):
        def __init__(self) -> None:
            super().__init__()
            self.words, words = nn.Embedding(3, 2), self.words
            self.later = words

        def forward(self, tokens):
            return self.layers[0](self.later(tokens))

    with pytest.raises(SiteError, match="site 'words' was not reached"):
        adapt(Tagged(), example=batch)


def test_equal_blocks_come_before_those_that_take_turns():
    class Two(nn.Module):
        """An encoder, and more heads of two kinds than it has layers."""

        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(2, 1, 4, batch_first=True)
            self.words, self.encoder = nn.Embedding(7, 2), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.heads = nn.ModuleList(kind(nn.Linear(2, 2)) for kind in (Block, nn.Sequential, Block))

    class Stages(nn.Module):
        """Stages of more blocks than there are stages, with something else between them."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(7, 2)
            inside = [nn.ModuleList(nn.Linear(2, 2) for _ in range(4)) for _ in range(2)]
            self.stages = nn.ModuleList([Block(inside[0]), nn.Sequential(nn.Linear(2, 2)), Block(inside[1])])

    class Experts(nn.Module):
        """Blocks of two kinds, more than any of them has experts."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(7, 2)
            experts = (nn.ModuleList(nn.Linear(2, 2) for _ in range(2)) for _ in range(3))
            self.layers = nn.ModuleList(
                kind(each) for kind, each in zip((Block, nn.Sequential, Block), experts, strict=True)
            )

    assert adapt(Two()).sites.names[-1] == "encoder.layers.1"
    assert adapt(Experts()).sites.names[-1] == "layers.2"
    assert adapt(Stages()).sites.names[-1] == "stages.0.0.3"


def test_a_list_with_gaps_is_no_list_of_blocks():
    model = nn.Module()
    model.words, model.layers = nn.Embedding(3, 2), nn.ModuleList([Block(nn.Tanh()), None, Block(nn.Tanh())])
    assert adapt(model).sites.names == ("words",)


def test_of_a_model_that_sees_and_reads_the_blocks_that_read_are_sites():
    common = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2}
    sees = SiglipVisionConfig(**common, num_hidden_layers=5, image_size=8, patch_size=4)
    reads = LlamaConfig(**common, num_hidden_layers=2, vocab_size=20)
    model = LlavaForConditionalGeneration(
        LlavaConfig(vision_config=sees, text_config=reads, image_token_index=19)
    ).eval()
    batch = Batch({"input_ids": torch.arange(12).view(2, 6)}, torch.ones(2, 6, dtype=torch.bool))
    names = adapt(model, example=batch).sites.names  # which runs it, and would say which site it does not reach
    assert len(names) == 4 and all("language_model" in name for name in names)
    assert adapt(model).blocks == list(model.model.language_model.layers)


def test_a_list_that_repeats_one_block_has_one_site_per_call(batch):
    sites = adapt(Unrolled(), example=batch).sites
    assert len(sites) == 5 and len({(site.module, site.side, site.call) for site in sites}) == 5


def test_a_module_of_ones_own_may_borrow_the_configuration_of_an_encoder_decoder():
    class Borrowed(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = types.SimpleNamespace(is_encoder_decoder=True)

    assert not writes_apart(Borrowed())
