import logging

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from diffmask.errors import DataError, SettingError
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.objective.divergence import divergence
from diffmask.tasks.checks import check_choice, check_keep
from diffmask.tasks.text import (
    MultiLabelClassification,
    NextToken,
    SpanAnswer,
    TextClassification,
    TextRegression,
    TokenClassification,
    at_last_real,
)
from diffmask.training.config import recipe
from diffmask.training.fit import fit

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "fast", "funny", "highly", "enjoyable", "movie", "."]
SIZES = {"vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TEXTS = ["a fast movie .", "funny", "a highly enjoyable movie .", "fast . fast"]


def make_tokenizer(max_length=16, **names):
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", **names}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=max_length, **special)


def make_task(kind=TextClassification, texts=TEXTS, **settings):
    return kind(make_tokenizer(settings.pop("longest", 16)), texts, texts[:2], **settings)


def test_units_are_the_tokens_and_padding_is_none():
    task = make_task()
    assert task.units(["funny", "a fast movie ."]) == [
        ["[CLS]", "funny", "[SEP]"],
        ["[CLS]", "a", "fast", "movie", ".", "[SEP]"],
    ]
    assert task.collate(["funny", "a fast movie ."]).valid.sum(1).tolist() == [3, 6]


def test_special_tokens_are_no_units_when_they_are_not_gated():
    task = make_task(gate_special=False)
    assert task.units(["funny movie"]) == [["funny", "movie"]]
    assert task.collate(["funny movie"]).valid.tolist() == [[False, True, True, False]]


def test_a_pair_is_one_example():
    task = make_task(texts=[("funny", "a movie"), ("fast", ".")])
    assert task.units([("funny", "a movie")]) == [["[CLS]", "funny", "[SEP]", "a", "movie", "[SEP]"]]


@pytest.mark.parametrize(
    ("kind", "model_class", "config", "heads"),
    [
        (TextClassification, BertForSequenceClassification, {"num_labels": 3}, {"label": (4, 3)}),
        (MultiLabelClassification, BertForSequenceClassification, {"num_labels": 3}, {"labels": (4, 3)}),
        (TextRegression, BertForSequenceClassification, {"num_labels": 1}, {"value": (4, 1)}),
        (TokenClassification, BertForTokenClassification, {"num_labels": 3}, {"labels": (4, 7, 3)}),
        (SpanAnswer, BertForQuestionAnswering, {}, {"start": (4, 9), "end": (4, 9)}),
    ],
)
def test_every_task_reads_its_prediction_and_does_not_see_padding(kind, model_class, config, heads):
    torch.manual_seed(0)
    task, model = make_task(kind), adapt(model_class(BertConfig(**SIZES, **config)).eval())
    with torch.no_grad():
        texts = [("funny", text) for text in TEXTS] if task.pairs else TEXTS
        batch, alone = task.collate(texts), task.collate(texts[:1])
        found, single = task.read(model(batch), batch), task.read(model(alone), alone)
    assert {name: tuple(head.raw.shape) for name, head in found.items()} == heads
    for name, head in single.items():
        real = head.raw[0]
        among = found[name].raw[0][: len(real)] if real.dim() and heads[name][1] > 3 else found[name].raw[0]
        torch.testing.assert_close(among, real, rtol=1e-4, atol=1e-5)


def test_an_answer_without_a_question_is_refused():
    task = make_task(SpanAnswer)
    with pytest.raises(DataError, match=r"give \(question, passage\), got the text 'a fast movie \.' alone"):
        task.collate([TEXTS[0]])
    assert len(task.collate([("funny", TEXTS[0]), ["funny .", TEXTS[0]]])) == 2


@pytest.mark.parametrize("kind", [TextClassification, SpanAnswer, NextToken])
def test_what_is_padding_is_said_also_where_the_tokenizer_would_not(kind):
    tokenizer = make_tokenizer(model_input_names=["input_ids"])
    batch = kind(tokenizer, [], []).collate([("a", text) for text in TEXTS])
    assert batch.inputs["attention_mask"].sum(1).tolist() == [8, 5, 9, 7]
    assert torch.equal(batch.inputs["attention_mask"] == 0, batch.inputs["input_ids"] == 0)


def test_a_model_that_takes_no_mask_is_given_none_and_said_to_read_padding(caplog):
    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(len(WORDS), 3)

        def forward(self, input_ids):
            return {"logits": self.words(input_ids).mean(1)}

    model, batch = Mean(), make_task().collate(TEXTS)
    inputs = {name: batch.inputs[name] for name in ("input_ids", "attention_mask")}
    adapted = adapt(model, sites=["words"])
    for _ in range(2):
        found = adapted(type(batch)(inputs, batch.valid))["logits"]
        assert torch.equal(found, model(inputs["input_ids"])["logits"])
    (warning,) = caplog.records
    assert "Mean takes no attention_mask and reads padding like text" in warning.message


def test_an_answer_of_other_heads_is_not_read_out():
    assert make_task(SpanAnswer).read_out(("funny", TEXTS[0]), {"start": 3, "end": 5, "third": 0}) is None


@pytest.mark.parametrize("keep", ["not", 7, [7], [" "], None])
def test_what_is_no_list_of_words_to_keep_is_refused(keep):
    with pytest.raises(DataError, match="keep takes a list of words, got"):
        check_keep(keep)


@pytest.mark.parametrize("passage", ["", " \n"])
def test_an_answer_in_a_passage_that_is_empty_is_refused(passage):
    with pytest.raises(DataError, match=r"the passage in which 'what \?' is answered is empty: leave such"):
        make_task(SpanAnswer).collate([("what ?", passage)])


@pytest.mark.parametrize(
    ("start", "end", "said"), [(3, 5, "a fast movie"), (4, 4, "fast"), (5, 3, None), (0, 0, None), (1, 3, None)]
)
def test_an_answer_is_read_out_of_its_passage(start, end, said):
    task = make_task(SpanAnswer)
    assert task.read_out(("funny", TEXTS[0]), {"start": start, "end": end}) == said


@pytest.mark.parametrize("side", ["left", "right"])
def test_where_an_answer_stands_does_not_depend_on_batch_mates(side):
    torch.manual_seed(0)
    tokenizer = make_tokenizer(padding_side=side)
    task, model = SpanAnswer(tokenizer, [], []), adapt(BertForQuestionAnswering(BertConfig(**SIZES)).eval())
    pairs = [("funny", text) for text in TEXTS]

    def answers(examples):
        batch = task.collate(examples)
        with torch.no_grad():
            found = task.read(model(batch), batch)
        return [(int(start), int(end)) for start, end in zip(*(h.decision() for h in found.values()), strict=True)]

    assert answers(pairs) == [answers([pair])[0] for pair in pairs]


def test_what_a_model_says_about_padding_never_counts_as_divergence():
    task = make_task(TokenClassification)
    batch = task.collate(TEXTS)

    class Output:
        def __init__(self, seed):
            real = batch.inputs["attention_mask"].bool().unsqueeze(-1)
            noise = torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(seed))
            self.logits = torch.where(real, 1.0, noise)

    gap = divergence(task.read(Output(0), batch), task.read(Output(1), batch))
    torch.testing.assert_close(gap, torch.zeros(4))


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_next_token_is_read_at_the_last_real_position(side):
    values = torch.arange(12.0).view(2, 6, 1)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1] if side == "left" else [1, 1, 1, 1, 0, 0]])
    assert at_last_real(values, mask).flatten().tolist() == [5, 11 if side == "left" else 9]


def test_next_token_of_a_causal_model_has_the_vocabulary_as_categories():
    torch.manual_seed(0)
    model = adapt(LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2)).eval())
    task = make_task(NextToken)
    batch = task.collate(TEXTS)
    batch.inputs.pop("token_type_ids", None)
    with torch.no_grad():
        assert task.read(model(batch), batch)["next token"].raw.shape == (4, len(WORDS))


def test_a_probe_is_fitted_and_explains_text_with_its_tokens():
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SIZES, num_labels=2))
    with torch.no_grad():  # make the random model decided, so that there is something to keep
        model.classifier.weight.mul_(200)
    task = make_task(texts=TEXTS * 8)
    fitted = fit(adapt(model), task, recipe(kind="input", steps=12, batch_size=8, ablation_steps=4, guard=False))
    explanation = explain(fitted, ["a fast movie ."])[0]
    assert explanation.units == ("[CLS]", "a", "fast", "movie", ".", "[SEP]")
    assert explanation.scores.shape == (4, 6)
    assert explanation.verification is not None


def test_a_text_that_is_too_long_is_cut_with_a_warning_or_refused(caplog):
    with caplog.at_level(logging.WARNING):
        assert make_task(longest=5).collate(["a fast funny movie ."]).valid.shape == (1, 5)
    assert "has 7 tokens and the model takes 5" in caplog.text and "2 of them are cut off" in caplog.text
    with pytest.raises(DataError, match=r"has 7 tokens and the model takes 5.*by not being strict"):
        make_task(longest=5, strict=True).collate(["a fast funny movie ."])


@pytest.mark.parametrize(("kind", "least"), [(TextClassification, 3), (SpanAnswer, 4)])
@pytest.mark.parametrize("below", [1, 3, 9])
def test_a_length_that_special_tokens_fill_is_refused(kind, least, below):
    wanted = rf"max_length must be at least {least}, got {least - below}: .* {least - 1} special tokens: take more"
    with pytest.raises(SettingError, match=wanted):
        make_task(kind, max_length=least - below)
    assert make_task(kind, max_length=least).max_length == least


def test_a_pair_that_is_cut_leaves_room_for_its_own_special_tokens():
    with pytest.raises(SettingError, match=r"max_length must be at least 4, got 3: .* 3 special tokens"):
        make_task(max_length=3).collate([("a", "movie")])


@pytest.mark.parametrize("text", ["", "  ", ("", " ")])
def test_an_empty_text_is_refused(text):
    with pytest.raises(DataError, match="a text is empty"):
        make_task().collate([text])


def test_texts_and_pairs_mix_in_one_batch():
    task = make_task()
    batch = task.collate(["funny", ("a", "movie")])
    assert batch.valid.sum(1).tolist() == [3, 5]
    assert task.units(["funny", ("a", "movie")])[1] == ["[CLS]", "a", "[SEP]", "movie", "[SEP]"]


def test_a_tokenizer_without_padding_says_how_to_get_it():
    with pytest.raises(DataError, match=r"has no padding token.*tokenizer\.pad_token = tokenizer\.eos_token"):
        TextClassification(make_tokenizer(pad_token=None), TEXTS, TEXTS)


def test_labels_that_are_not_the_models_are_refused():
    model = adapt(BertForSequenceClassification(BertConfig(**SIZES, num_labels=2)).eval())
    task = make_task(labels=["bad", "middling", "good"])
    batch = task.collate(TEXTS)
    with pytest.raises(DataError, match=r"3 labels are named \(bad, middling, good\) and the model knows 2"):
        task.read(model(batch), batch)


def test_a_choice_that_does_not_exist_is_refused():
    with pytest.raises(DataError, match=r"no place to ask named 'third'.*Known: nowhere, first, last"):
        check_choice("place to ask", "third", ("nowhere", "first", "last"))  # the type checker complains earlier


def test_what_is_cut_off_is_counted_and_what_was_met_can_be_forgotten():
    task = make_task(longest=5)
    assert task.encoded("a fast funny movie .").cut == 2 and task.encoded("funny").cut == 0
    task.forget()
    assert not task._seen


def test_half_a_character_is_refused():
    with pytest.raises(DataError, match="half a character"):
        make_task().collate(["funny \ud83d"])
