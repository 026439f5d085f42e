"""Generic attention explainability against the paper's rule, head by head on an eager copy, one example at a time."""

import pytest
import torch
from transformers import AlbertConfig, AlbertForSequenceClassification

from diffmask.attribution.chefer import Chefer, slopes_of
from diffmask.attribution.method import Question
from diffmask.errors import ModelError
from diffmask.models.adapting import adapt
from diffmask.tasks.images import ImageClassification
from tiny_vision import ARCHITECTURES, PATCH, build, images

TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]
MEAN = {"BeitForImageClassification", "CLIPForImageClassification"}  # they answer from the mean of their patches
VISION = [name for name in ARCHITECTURES if not name.startswith(("Swin", "CLIPVision"))]


def eager_copy(model):
    copy = type(model)._from_config(model.config, attn_implementation="eager").eval()
    copy.load_state_dict(model.state_dict())
    return copy


def slow(model, inputs, score, asks, first=0):
    """R ← R + mean over heads of (∇A ⊙ A)⁺ · R for one example; `asks` are the rows that are averaged."""
    output = eager_copy(model)(**inputs, output_attentions=True)
    layers = list(output.attentions)
    slopes = torch.autograd.grad(score(output), layers, allow_unused=True)
    relevance = torch.eye(layers[0].shape[-1])
    for layer, slope in list(zip(layers, slopes, strict=True))[first:]:
        heads = [(layer[0, head] * slope[0, head]).clamp_min(0) for head in range(layer.shape[1])]
        relevance = relevance + sum(heads) / len(heads) @ relevance
    return relevance[asks].mean(0).detach()


@pytest.mark.parametrize("depth", [0, 2, 3])
@pytest.mark.parametrize(("kind", "side"), [("bert", "right"), ("llama", "right"), ("llama", "left")])
def test_it_agrees_with_a_slow_copy_over_each_text_alone(ask_text, kind, side, depth):
    question = ask_text(TEXTS, depth, kind, padding_side=side)
    found = Chefer()(question)
    for row, text in enumerate(TEXTS):
        alone = ask_text([text], kind=kind).batch
        asks = [0] if kind == "bert" else [alone.shape[1] - 1]  # [CLS], or the last token
        first = max(0, depth - 1)
        expected = slow(question.model.model, alone.inputs, lambda out: answer(out.logits).max(), asks, first)
        torch.testing.assert_close(found[row][question.batch.valid[row]], expected[alone.valid[0]])


def answer(logits):
    return logits[0] if logits.dim() == 2 else logits[0, -1]


@pytest.mark.parametrize("ask", ["cls", "read"])
@pytest.mark.parametrize("name", VISION)
def test_it_agrees_with_a_slow_copy_over_each_image_alone(name, ask):
    model, pixels, prefix = build(name), images(name), ARCHITECTURES[name][2]
    task = ImageClassification(None, pixels, pixels, patch=PATCH)
    found = Chefer(ask)(Question(adapt(model), task, task.collate(list(pixels)), 0, torch.zeros(16)))
    count = found.shape[1] + prefix
    asks = list(range(prefix, count)) if name in MEAN or not prefix else [0]
    if name.startswith("Dinov2") and ask == "read":  # its head reads [CLS] and the mean of the patches
        asks = [0, *range(prefix, count)]
    for row in range(2):
        expected = slow(model, {"pixel_values": pixels[row : row + 1]}, lambda out: out.logits[0].max(), asks)
        torch.testing.assert_close(found[row], expected[prefix:], rtol=1e-4, atol=1e-5)


def test_relevance_of_a_word_is_the_sum_of_its_tokens(ask_text, add_up_tokens):
    texts = TEXTS[::2]
    words = ask_text(texts, unit="word")
    torch.testing.assert_close(Chefer()(words), add_up_tokens(words.task, texts, Chefer()(ask_text(texts))))


def test_behind_the_last_layer_only_what_is_read_has_a_score(ask_text):
    scores = Chefer()(ask_text(depth=3))
    assert torch.equal(scores, torch.nn.functional.one_hot(torch.tensor([0] * 3), scores.shape[1]).float())


def test_a_block_that_runs_twice_counts_twice(ask_text):
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "embedding_size": 16, "hidden_size": 16, "num_hidden_layers": 2}
    config = AlbertConfig(**sizes, num_attention_heads=2, intermediate_size=24, num_labels=3, initializer_range=0.4)
    model = AlbertForSequenceClassification(config).eval()
    batch = ask_text(TEXTS[:1]).batch
    question = ask_text(TEXTS[:1], model=adapt(model, example=batch))
    expected = slow(model, question.batch.inputs, lambda out: out.logits[0].max(), [0])
    torch.testing.assert_close(Chefer()(question)[0], expected)


def test_the_row_of_cls_is_asked_unless_all_that_is_read_is_named():
    assert Chefer() == Chefer("cls")


def test_attention_that_is_only_shown_is_refused():
    shown, value = torch.rand(1, 2, 3, 3, requires_grad=True), torch.rand(1, requires_grad=True).sum()
    with pytest.raises(ModelError, match="that Toy returns have no effect on its answer, which method 'chefer'"):
        slopes_of(value, [shown], "Toy")
