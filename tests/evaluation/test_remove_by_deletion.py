"""Deleting units from a batch is the same as tokenizing the texts without them."""

import pytest
import torch
from transformers import BertForQuestionAnswering, BertForTokenClassification

from diffmask.attribution.method import Question
from diffmask.errors import DataError
from diffmask.evaluation.figure import predict
from diffmask.evaluation.remove_by_deletion import ByDeletion, shorten
from diffmask.models.adapting import adapt
from diffmask.tasks.continuation import Continuation
from diffmask.tasks.text import NextToken, SpanAnswer, TextClassification, TokenClassification
from diffmask.tasks.units import Kept
from diffmask.types import Batch
from tiny_text import TEXTS, make_model, make_tokenizer, pad_left


def ask(task, texts, model):
    return Question(adapt(model), task, task.collate(texts), 0, None)


def keep_of(question, texts, kept):
    """Mark the units of each text that are to be kept, by name; special tokens are asked to go."""
    keep = torch.zeros(1, *question.batch.valid.shape)
    for row, names in enumerate(question.task.units(texts)):
        columns = question.batch.valid[row].nonzero().flatten().tolist()
        for column, name in zip(columns, names, strict=True):
            keep[0, row, column] = float(name in kept[row])
    return keep


LEFT = [["a", "movie"], ["enjoyable"], ["fast", "enjoyable", "."]]
SHORTER = ["a movie", "enjoyable", "fast enjoyable ."]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", ["bert", "llama", "gpt2"])
def test_a_text_without_words_is_the_text_that_never_had_them(kind, side):
    causal = kind != "bert"
    make = NextToken if causal else TextClassification
    task = make(make_tokenizer(side, causal=causal), TEXTS, TEXTS, unit="word")
    model = make_model(kind)
    texts, shorter = ([f"{text} ." for text in those] if causal else those for those in (TEXTS, SHORTER))
    question = ask(task, texts, model)  # the last token of a causal model's text is never removed
    (found,) = ByDeletion()(question, keep_of(question, texts, LEFT))
    expected = predict(ask(task, shorter, model))
    (name,) = expected
    torch.testing.assert_close(found[name].raw, expected[name].raw, rtol=1e-4, atol=1e-5)


def test_the_shorter_batch_is_the_tokenizers_own():
    task = TextClassification(make_tokenizer(), TEXTS, TEXTS, unit="word")
    question = ask(task, TEXTS, make_model("bert"))
    shorter = shorten(question.batch, keep_of(question, TEXTS, LEFT)[0], task.tokenizer)
    expected = task.tokenizer(SHORTER, padding=True, return_tensors="pt")
    for name, tensor in expected.items():
        assert torch.equal(shorter.inputs[name], tensor)
    assert shorter.place.shape == expected["input_ids"].shape and shorter.valid is question.batch.valid


def test_in_a_pair_the_parts_keep_their_types():
    task = TextClassification(make_tokenizer(), [("a movie", "fast")], [("a movie", "fast")], unit="word")
    pair, model = ("what a movie ?", "a fast funny movie"), make_model("bert")
    question = ask(task, [pair], model)
    kept = keep_of(question, [pair], [["what", "?", "fast", "funny"]])
    (found,) = ByDeletion()(question, kept)
    expected = predict(ask(task, [("what ?", "fast funny")], model))
    torch.testing.assert_close(found["label"].raw, expected["label"].raw, rtol=1e-4, atol=1e-5)


def test_single_tokens_and_segments_can_go_and_what_is_always_kept_stays():
    model, tokenizer = make_model("bert"), make_tokenizer()
    task = TextClassification(tokenizer, [["a movie"]], [["a movie"]], unit="segment")
    text = ["a funny movie .", "enjoyable .", Kept("what ?")]
    question = ask(task, [text], model)
    (found,) = ByDeletion()(question, keep_of(question, [text], [["enjoyable ."]]))
    expected = predict(ask(task, [["enjoyable .", Kept("what ?")]], model))
    torch.testing.assert_close(found["label"].raw, expected["label"].raw, rtol=1e-4, atol=1e-5)
    task = TextClassification(tokenizer, TEXTS, TEXTS)
    question = ask(task, ["a funny movie ."], model)
    (found,) = ByDeletion()(question, keep_of(question, ["a funny movie ."], [["a", "##ny", "."]]))
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", "a", "##ny", ".", "[SEP]"])
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, 5, dtype=torch.long))
    torch.testing.assert_close(found["label"].raw, expected.logits, rtol=1e-4, atol=1e-5)


def test_an_unknown_word_is_a_word():
    task = TextClassification(make_tokenizer(), TEXTS, TEXTS)
    batch = task.collate(["a strange movie"])
    shorter = shorten(batch, torch.zeros(1, batch.valid.shape[1]), task.tokenizer)
    assert shorter.inputs["input_ids"].tolist() == [[1, 2]]


def test_a_text_of_which_nothing_is_left_is_one_token_that_says_nothing():
    tokenizer = make_tokenizer()
    inputs = {"input_ids": torch.tensor([[4, 5, 8], [4, 5, 0]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    batch = Batch(inputs, inputs["attention_mask"].bool())
    shorter = shorten(batch, torch.tensor([[0.0, 0, 0], [0, 1, 0]]), tokenizer)
    assert shorter.inputs["input_ids"].tolist() == [[tokenizer.pad_token_id], [5]]
    assert shorter.inputs["attention_mask"].tolist() == [[1], [1]]


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_continuation_is_asked_where_the_prompt_now_ends(side):
    task = Continuation(make_tokenizer(causal=True), [("a", "fast")], [("a", "fast")], unit="word")
    task = pad_left(task, side == "left")
    model = make_model("llama")
    texts = [("a funny movie .", "enjoyable a"), ("fast a funny a movie ?", "a")]
    question = ask(task, texts, model)
    (found,) = ByDeletion()(question, keep_of(question, texts, [["a", "movie"], ["funny"]]))
    expected = predict(ask(task, [("a movie .", "enjoyable a"), ("funny ?", "a")], model))
    found, expected = found["continuation"], expected["continuation"]
    assert torch.equal(found.real, expected.real)
    torch.testing.assert_close(found.raw[found.real], expected.raw[found.real], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make_task", "make_net", "name"),
    [(TokenClassification, BertForTokenClassification, "labels"), (SpanAnswer, BertForQuestionAnswering, "start")],
)
def test_a_prediction_for_each_position_cannot_be_compared(make_task, make_net, name):
    task = make_task(make_tokenizer(), TEXTS, TEXTS, unit="word")
    texts = [("what", text) for text in TEXTS] if task.pairs else TEXTS
    question = ask(task, texts, make_net(make_model("bert", num_labels=2).config).eval())
    with pytest.raises(DataError, match=f"the prediction '{name}' is made for each of them.* use removal 'mask-token'"):
        ByDeletion()(question, torch.ones(1, *question.batch.valid.shape))


def test_positions_that_the_task_numbers_itself_are_refused():
    task = TextClassification(make_tokenizer(), TEXTS, TEXTS)
    batch = task.collate(TEXTS)
    batch = Batch({**batch.inputs, "position_ids": batch.order}, batch.valid)
    with pytest.raises(DataError, match="this task numbers them itself"):
        ByDeletion()(Question(adapt(make_model("bert")), task, batch, 0, None), torch.ones(1, *batch.valid.shape))
