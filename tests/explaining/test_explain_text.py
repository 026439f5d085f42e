"""Explaining texts with a fitted probe: what it costs, and what short, odd and empty texts get."""

import pytest
import torch

from diffmask.errors import DataError, ExampleError
from diffmask.explaining.certify import certify
from diffmask.explaining.chunks import each_of
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.report.plain import answer
from diffmask.tasks.text import NextToken, SpanAnswer, TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import TEXTS, Counting, make_model, make_tokenizer, pad_left

SETTINGS = {"margin": 1.0, "steps": 4, "batch_size": 4, "ablation_steps": 2, "guard": False}


def fit_text(model="bert", side="right", unit="token", **changes):
    tokenizer = make_tokenizer(causal=model != "bert")
    task_class = TextClassification if model == "bert" else NextToken
    texts = ["a funny movie .", "a fast enjoyable movie", "fast . funny movie"]
    task = pad_left(task_class(tokenizer, texts * 3, texts, unit=unit), side == "left")
    return fit(adapt(Counting(make_model(model)), tokenizer), task, recipe(**{**SETTINGS, **changes}))


@pytest.fixture(scope="module")
def fitted():
    return fit_text()


@pytest.mark.parametrize(
    ("model", "side", "changes"),
    [
        ("bert", "right", {"kind": "input"}),
        ("bert", "right", {"kind": "hidden"}),
        ("llama", "left", {"removal": "knockout"}),
    ],
)
def test_an_explanation_costs_one_pass_and_one_to_verify_it(model, side, changes):
    found = fit_text(model, side, "word", **{**changes, "steps": 1})
    counting = found.model.model
    counting.passes = 0
    explain(found, found.task.validation, verify=False)
    assert counting.passes == 1
    explain(found, found.task.validation)
    assert counting.passes == 3
    explain(found, found.task.validation, batch_size=1)
    assert counting.passes == 9


def test_dropout_left_on_does_not_change_an_explanation_and_is_put_back(fitted):
    expected = explain(fitted, TEXTS)
    model = fitted.model.model.train()
    assert any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in model.modules())
    found = explain(fitted, TEXTS)
    assert all(module.training for module in model.modules())
    model.eval()
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.scores, other.scores) and one.verification == other.verification


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_an_explanation_does_not_depend_on_the_other_texts_of_its_batch(side, unit):
    found = fit_text("llama", side, unit)
    together = explain(found, TEXTS[::2])
    for text, among in zip(TEXTS[::2], together, strict=True):
        (alone,) = explain(found, [text])
        assert alone.units == among.units
        torch.testing.assert_close(alone.scores, among.scores, rtol=1e-3, atol=1e-3)


def test_a_text_of_one_token_is_explained(fitted):
    (explanation,) = explain(fitted, ["movie"])
    assert explanation.units == ("[CLS]", "movie", "[SEP]") and explanation.verification is not None


def test_a_text_of_which_no_token_is_left_is_explained_by_its_special_tokens(fitted):
    (explanation,) = explain(fitted, ["\u200b"])  # not blank, and the tokenizer drops it
    assert explanation.units == ("[CLS]", "[SEP]")


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
def test_without_them_it_is_refused_by_its_place(unit):
    task = TextClassification(make_tokenizer(), [], [], unit=unit, gate_special=False)
    with pytest.raises(DataError, match=r"example 1 of this batch has no units \(1 of 2 are empty\)"):
        task.collate(["movie", "\u200b"])


@pytest.mark.parametrize("do", [explain, certify])
@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_what_cannot_be_explained_is_named_by_its_row_in_the_callers_list(do, batch_size, monkeypatch):
    found = fit_text()
    monkeypatch.setattr(found.task, "gate_special", False)
    found.task.forget()
    texts = ["a fast enjoyable movie .", "a funny movie", "a movie", "\u200b", "funny"]
    with pytest.raises(ExampleError, match=r"^example 3: an example has no units: all there is") as raised:
        do(found, texts, batch_size=batch_size)
    assert raised.value.row == 3
    with pytest.raises(ExampleError, match=r"^example 4: a text is empty"):
        do(found, [*texts[:3], "funny", ""], batch_size=batch_size)
    with pytest.raises(ExampleError, match=r"^a text is empty"):  # there is but one
        do(found, [""])


def test_a_batch_that_cannot_be_made_of_good_examples_says_what_it_said():
    def make(examples):
        if len(examples) > 1:
            raise DataError("too many at once")

    with pytest.raises(DataError, match="too many at once") as raised:
        each_of(make, ["a", "b"], [0, 1], 2)
    assert not isinstance(raised.value, ExampleError)


def test_a_prompt_of_one_token_has_nothing_to_drop_and_is_refused():
    task = NextToken(make_tokenizer("left", causal=True), [], [])
    wanted = r"an example has no units: all there is of it always stays, .* the last token of a prompt; filter such"
    with pytest.raises(DataError, match=wanted):
        task.collate(["movie"])


@pytest.mark.parametrize("text", ["", " \n", ["", " "], ("", "")])
def test_an_empty_text_is_refused(fitted, text):
    with pytest.raises(DataError, match="a text is empty: there is nothing to explain in it; filter"):
        explain(fitted, [text])


def test_a_tokenizer_of_a_causal_model_without_padding_says_how_to_get_it():
    tokenizer = make_tokenizer("left", causal=True, pad_token=None)
    with pytest.raises(DataError, match=r"has no padding token.*set one, e\.g\. tokenizer\.pad_token = tokenizer\.eos"):
        NextToken(tokenizer, [], [])


def test_the_answer_to_a_question_is_said_in_the_words_of_the_passage():
    class Pointing(torch.nn.Module):
        """Says that what begins with "fast" (5) and ends with "movie" (8) is the answer."""

        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding.from_pretrained(torch.eye(14))

        def forward(self, input_ids, attention_mask, token_type_ids):
            state = self.embedding(input_ids)
            return {"start_logits": 20 * state[..., 5], "end_logits": 20 * state[..., 8]}

    tokenizer, pairs = make_tokenizer(), [("what ?", "a fast funny movie ."), ("what ?", "movie . fast .")]
    task = SpanAnswer(tokenizer, pairs, pairs)
    found = explain(fit(adapt(Pointing()), task, recipe(**SETTINGS)), pairs)
    said = [answer(each.verification.original, each.info.get("labels")) for each in found]
    assert said == ["fast funny movie (start 5, end 8)", "start 6, end 4"]


def test_a_text_that_is_too_long_is_refused_when_strict_and_cut_otherwise(caplog):
    texts = ["a fast movie . a fast movie ."]
    with pytest.raises(
        DataError, match=r"has 10 tokens and the model takes 6: 'a fast.*shorten it, or allow it to be cut"
    ):
        TextClassification(make_tokenizer(longest=6), texts, texts, strict=True).collate(texts)
    task = TextClassification(make_tokenizer(), texts, texts, max_length=6)
    task.collate(texts)
    task.units(texts * 3)
    assert caplog.text.count("has 10 tokens and the model takes 6") == 1
    assert "4 of them are cut off and not explained" in caplog.text


def test_examples_of_like_length_go_together_and_come_back_in_their_order():
    tokenizer = make_tokenizer()
    model, texts = adapt(make_model("bert"), tokenizer), [TEXTS[i % 3] for i in (0, 1, 2, 2, 1, 0, 1)]
    task = TextClassification(tokenizer, texts, texts)
    fitted = fit(model, task, recipe("text", **SETTINGS))
    widths, collate = [], task.collate
    task.collate = lambda some: widths.append(max(len(task.encoded(text).place) for text in some)) or collate(some)
    found = explain(fitted, texts, batch_size=2)
    assert widths == sorted(widths)
    for text, explanation in zip(texts, found, strict=True):
        (alone,) = explain(fitted, [text])
        assert explanation.units == alone.units and torch.equal(explanation.kept, alone.kept)
        torch.testing.assert_close(explanation.scores, alone.scores)
        assert explanation.scores.untyped_storage().nbytes() == explanation.scores.nbytes  # and nothing of its mates
