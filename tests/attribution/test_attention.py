import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, T5Config, T5ForConditionalGeneration

from diffmask.attribution.attention import Attention
from diffmask.attribution.method import Question
from diffmask.errors import ModelError, SettingError
from diffmask.models.adapting import adapt
from diffmask.types import Batch
from toys import evidence_model, evidence_task


@torch.no_grad()
def reference(question):
    """Ask a second, eager copy of the model: (layer, batch, query, key), averaged over heads."""
    model = question.model.model
    copy = type(model)._from_config(model.config, attn_implementation="eager").eval()
    copy.load_state_dict(model.state_dict())
    layers = copy(**question.batch.inputs, output_attentions=True).attentions
    return torch.stack(layers).mean(2)


@pytest.mark.parametrize("layer", ["mean", 0, 1, -1])
def test_without_an_asking_position_it_is_the_mean_over_real_queries(ask_text, layer):
    question = ask_text()
    layers = reference(question)
    weights = layers.mean(0) if layer == "mean" else layers[layer]
    found = Attention(layer)(question)
    for row, valid in enumerate(question.batch.valid):
        expected = weights[row][valid].mean(0) * valid
        torch.testing.assert_close(found[row], expected)
    torch.testing.assert_close(found.sum(1), torch.ones(3))  # nothing is lost when every real position is a unit


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_it_is_read_where_the_answer_is_made(ask_text, padding_side):
    question = ask_text(kind="llama", padding_side=padding_side)
    weights, found = reference(question)[1], Attention(1)(question)
    for row, ask in enumerate(question.batch.ask.tolist()):
        torch.testing.assert_close(found[row], weights[row, ask] * question.batch.valid[row])


def test_the_attention_of_a_word_is_the_sum_of_its_tokens(ask_text, add_up_tokens):
    texts = ["a funny movie .", "a fast enjoyable movie . funny"]
    words = ask_text(texts, unit="word")
    expected = add_up_tokens(words.task, texts, Attention()(ask_text(texts)))
    torch.testing.assert_close(Attention()(words), expected)


def test_special_tokens_ask_even_where_they_are_not_gated(ask_text):
    gated, kept = ask_text(), ask_text(gate_special=False)
    expected = Attention()(gated) * kept.batch.valid
    torch.testing.assert_close(Attention()(kept), expected)


def test_it_is_the_same_at_every_depth(ask_text):
    assert torch.equal(Attention()(ask_text(depth=0)), Attention()(ask_text(depth=3)))


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_model_gets_its_own_attention_and_its_own_hooks_back(ask_text, implementation):
    question = ask_text()
    model = question.model.model
    model.set_attn_implementation(implementation)
    names = {module: set(vars(module)) for module in model.modules()}
    first = Attention()(question)
    assert model.config._attn_implementation == implementation
    assert not any(module._forward_hooks for module in model.modules())
    assert all(set(vars(module)) == known for module, known in names.items())
    assert torch.equal(Attention()(question), first)


def test_hooks_the_model_had_before_stay(ask_text):
    question = ask_text()
    model = question.model.model
    model.set_attn_implementation("eager")
    expected = model(**question.batch.inputs, output_attentions=True).attentions
    Attention()(question)
    found = model(**question.batch.inputs, output_attentions=True).attentions
    assert len(found) == len(expected) == 2 and torch.equal(found[0], expected[0])


def test_a_model_that_raises_is_left_as_it_was(ask_text):
    question = ask_text()
    model = question.model.model
    broken = Question(question.model, question.task, Batch({"no_such": 1}, question.batch.valid), 0, question.baseline)
    with pytest.raises((TypeError, ValueError)):
        Attention()(broken)
    assert model.config._attn_implementation == "sdpa"
    assert not any(module._forward_hooks for module in model.modules())


def test_parts_with_an_attention_of_their_own_get_it_back():
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0)).eval()
    model.encoder.set_attn_implementation("eager")
    before = [part.config._attn_implementation for part in (model, model.encoder, model.decoder)]
    ids, valid = torch.randint(3, 20, (2, 5)), torch.ones(2, 5, dtype=torch.bool)
    inputs = {"input_ids": ids, "attention_mask": valid.long(), "decoder_input_ids": torch.tensor([[0], [0]])}
    scores = Attention()(Question(adapt(model), evidence_task(), Batch(inputs, valid), 0, torch.zeros(16)))
    torch.testing.assert_close(scores.sum(1), torch.ones(2))  # the encoder's, over the positions of the input
    assert [part.config._attn_implementation for part in (model, model.encoder, model.decoder)] == before


@pytest.mark.parametrize("kind", ["lstm", "evidence"])
def test_a_model_without_attention_is_refused(ask_text, kind):
    task = evidence_task()
    toy = Question(evidence_model(), task, task.collate(range(3)), 0, torch.zeros(4))
    question = ask_text(kind="lstm") if kind == "lstm" else toy
    with pytest.raises(ModelError, match=r"gives no attention probabilities.*use another, e\.g\. integrated-gradients"):
        Attention()(question)


def test_weights_that_are_not_over_pairs_of_positions_are_refused(ask_text, monkeypatch):
    question = ask_text()
    monkeypatch.setattr(type(question.model.model), "forward", lambda self, **_: BertOutput())

    class BertOutput:
        attentions = (torch.ones(3, 2, 4, 4),)

    with pytest.raises(ModelError, match="one for every pair of positions"):
        Attention()(question)


def test_a_layer_the_model_has_not_is_refused(ask_text):
    with pytest.raises(SettingError, match="no attention layer 2: the model has 2, counted from 0"):
        Attention(2)(ask_text())


def test_attention_of_a_half_precision_model_is_averaged_in_full(ask_text):
    question = ask_text(model=adapt(BertForSequenceClassification(BertConfig(**SMALL)).eval().bfloat16()))
    assert Attention()(question).dtype == torch.float32


SMALL = {"vocab_size": 12, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
