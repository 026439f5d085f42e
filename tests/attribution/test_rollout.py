"""Attention rollout against the paper's products, written with loops over one example without padding at a time."""

import pytest
import torch
from torch import nn
from transformers import AlbertConfig, AlbertForSequenceClassification, BertConfig, BertModel, ViTConfig
from transformers import ViTForImageClassification as ViT
from transformers.modeling_outputs import SequenceClassifierOutput

from diffmask.attribution.method import Question
from diffmask.attribution.rollout import Rollout
from diffmask.errors import ModelError, SettingError
from diffmask.models.adapting import adapt
from diffmask.models.attention import Attended
from diffmask.tasks.tensors import TensorTask
from diffmask.types import Batch, Categorical
from toys import evidence_model, evidence_task

TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]


class Averaged(nn.Module):
    """Answers from the mean of all real positions behind the first."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def set_attn_implementation(self, name):
        self.inner.set_attn_implementation(name)

    def forward(self, input_ids, attention_mask, output_attentions=False):
        found = self.inner.bert(input_ids, attention_mask, output_attentions=output_attentions)
        real = attention_mask[:, 1:].unsqueeze(-1).float()
        mean = (found[0][:, 1:] * real).sum(1) / real.sum(1)
        return SequenceClassifierOutput(logits=self.inner.classifier(mean), attentions=found.attentions)


@torch.no_grad()
def eager_layers(model, inputs):
    copy = type(model)._from_config(model.config, attn_implementation="eager").eval()
    copy.load_state_dict(model.state_dict())
    return copy(**inputs, output_attentions=True).attentions


def slow(layers, asks, heads="mean", discard=0.0, causal=False):
    """Multiply the layers of one example, weight by weight; `asks` are the rows that are averaged."""
    count = layers[0].shape[-1]
    flow = torch.eye(count)
    for layer in layers:
        fused = torch.zeros(count, count)
        for i in range(count):
            for j in range(count):
                values = [float(head[i, j]) for head in layer[0]]
                fused[i, j] = {"mean": sum(values) / len(values), "max": max(values), "min": min(values)}[heads]
        pairs = [(float(fused[i, j]), i, j) for i in range(count) for j in range(count) if j <= i or not causal]
        for _, i, j in sorted(pairs)[: int(discard * len(pairs))]:
            fused[i, j] = 0
        for i in range(count):
            row = 0.5 * fused[i]
            row[i] += 0.5
            fused[i] = row / row.sum()
        flow = fused @ flow
    return flow[asks].mean(0)


@pytest.mark.parametrize(("heads", "discard"), [("mean", 0.0), ("max", 0.0), ("min", 0.3), ("mean", 0.9)])
@pytest.mark.parametrize(("kind", "side"), [("bert", "right"), ("llama", "right"), ("llama", "left")])
def test_it_agrees_with_loops_over_each_example_alone(ask_text, kind, side, heads, discard):
    question = ask_text(TEXTS, kind=kind, padding_side=side)
    found = Rollout(heads, discard)(question)
    for row, text in enumerate(TEXTS):
        alone = ask_text([text], kind=kind).batch
        asks = [0] if alone.ask is None else alone.ask.tolist()  # a classifier reads [CLS] alone
        layers = eager_layers(question.model.model, alone.inputs)
        expected = slow(layers, asks, heads, discard, causal=kind == "llama")
        torch.testing.assert_close(found[row][question.batch.valid[row]], expected[alone.valid[0]])


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_at_a_hidden_site_only_the_layers_after_it_count(ask_text, depth):
    question = ask_text(TEXTS[2:], depth)
    layers = eager_layers(question.model.model, question.batch.inputs)[max(0, depth - 1) :]
    expected = slow(layers, [0]) if layers else torch.eye(10)[0]  # behind the last layer only [CLS] is read
    torch.testing.assert_close(Rollout()(question)[0], expected)


def test_sites_named_by_hand_know_what_came_before_them_too(ask_text):
    model = ask_text().model.model
    late = adapt(model, sites=["bert.encoder.layer.0.output"])  # inside the first block: its attention still counts
    last = adapt(model, sites=["bert.encoder.layer.1"])
    torch.testing.assert_close(Rollout()(ask_text(model=late)), Rollout()(ask_text(model=adapt(model))))
    torch.testing.assert_close(Rollout()(ask_text(model=last)), Rollout()(ask_text(depth=3, model=adapt(model))))


@pytest.mark.parametrize(("heads", "discard"), [("mean", 0.0), ("max", 0.5)])
def test_without_special_cases_the_shares_add_up_to_one(ask_text, heads, discard):
    torch.testing.assert_close(Rollout(heads, discard)(ask_text()).sum(1), torch.ones(3))


def test_the_flow_of_a_word_is_the_sum_of_its_tokens(ask_text, add_up_tokens):
    texts = ["a funny movie .", "a fast enjoyable movie . funny"]
    words = ask_text(texts, unit="word")
    torch.testing.assert_close(Rollout()(words), add_up_tokens(words.task, texts, Rollout()(ask_text(texts))))


def test_a_discard_in_one_example_is_no_others_business(ask_text):
    together = Rollout(discard=0.9)(ask_text(TEXTS))
    for row, text in enumerate(TEXTS):
        alone = Rollout(discard=0.9)(ask_text([text]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone)


def test_a_layer_that_runs_several_times_counts_each_time(ask_text):
    sizes = {"vocab_size": 12, "hidden_size": 16, "embedding_size": 8, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = AlbertConfig(**sizes, intermediate_size=24, num_hidden_layers=3, initializer_range=0.4)
    model = AlbertForSequenceClassification(config).eval()
    example = ask_text(TEXTS[2:]).batch
    adapter = adapt(model, example=example)
    layers = eager_layers(model, example.inputs)
    for depth, left in ((0, 3), (2, 2), (3, 1)):
        question = ask_text(TEXTS[2:], depth, model=adapter)
        torch.testing.assert_close(Rollout()(question)[0], slow(layers[3 - left :], [0]))


def test_a_model_that_reads_several_positions_is_asked_at_each_of_them(ask_text):
    question = ask_text(TEXTS, model=adapt(Averaged(ask_text().model.model)))
    found = Rollout()(question)
    for row, text in enumerate(TEXTS):
        alone = ask_text([text]).batch
        expected = slow(eager_layers(question.model.model.inner, alone.inputs), list(range(1, alone.shape[1])))
        torch.testing.assert_close(found[row][question.batch.valid[row]], expected)


def test_without_a_gradient_every_real_position_asks(ask_text):
    question = ask_text(TEXTS)
    question.model.model.forward = torch.no_grad()(question.model.model.forward)
    found = Rollout()(question)
    for row, text in enumerate(TEXTS):
        alone = ask_text([text]).batch
        expected = slow(eager_layers(question.model.model, alone.inputs), list(range(alone.shape[1])))
        torch.testing.assert_close(found[row][question.batch.valid[row]], expected)


def test_an_image_is_read_at_its_first_position_and_every_patch_has_its_share():
    torch.manual_seed(0)
    sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 16, "intermediate_size": 24}
    model = ViT(ViTConfig(**sizes, num_hidden_layers=2, num_attention_heads=2, num_labels=3)).eval()
    pixels, valid = torch.randn(2, 3, 8, 8), torch.ones(2, 4, dtype=torch.bool)
    place = torch.tensor([[-1, 0, 1, 2, 3]]).expand(2, -1)
    batch = Batch({"pixel_values": pixels}, valid, place, torch.zeros(2, dtype=torch.long))
    task = TensorTask({"pixel_values": pixels}, valid, lambda out: {"label": Categorical(out.logits)})
    found = Rollout()(Question(adapt(model), task, batch, 0, torch.zeros(16)))
    for row in range(2):
        layers = eager_layers(model, {"pixel_values": pixels[row : row + 1]})
        torch.testing.assert_close(found[row], slow(layers, [0])[1:])


def test_a_model_without_attention_is_refused_by_name(ask_text):
    task = evidence_task()
    toy = Question(evidence_model(), task, task.collate(range(3)), 0, torch.zeros(4))
    for question in (ask_text(kind="lstm"), toy):
        with pytest.raises(ModelError, match=r"method 'rollout' reads from a Hugging Face model: use another, e\.g\."):
            Rollout()(question)


def test_blocks_that_do_not_match_the_attention_are_refused(ask_text, monkeypatch):
    question = ask_text(depth=2)
    monkeypatch.setattr("diffmask.models.flow.attend", lambda *_: Attended(question.model(question.batch), []))
    with pytest.raises(ModelError, match=r"cannot tell which of the 0 attention layers .* as 2 blocks ran"):
        Rollout()(question)


@pytest.mark.parametrize("settings", [{"discard": 1.0}, {"discard": -0.1}])
def test_a_discard_of_all_or_less_than_nothing_is_refused(settings):
    with pytest.raises(SettingError, match=r"rollout.discard must lie in \[0, 1\)"):
        Rollout(**settings)


def test_another_way_to_fuse_heads_is_refused(outside):
    code = "from diffmask.attribution.rollout import Rollout; Rollout('median')"
    assert "rollout.heads: no choice named 'median'" in outside(code)


def test_a_half_precision_model_is_rolled_out_in_full(ask_text):
    question = ask_text()
    question.model.model.bfloat16()
    assert Rollout()(question).dtype == torch.float32


def test_a_model_without_a_head_works_too(ask_text):
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    question = ask_text(model=adapt(BertModel(BertConfig(**sizes, intermediate_size=24)).eval()))
    torch.testing.assert_close(Rollout()(question).sum(1), torch.ones(3))
