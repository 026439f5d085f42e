"""Special tokens that stand in a text itself: they count like those the tokenizer adds."""

import pytest

from diffmask.errors import DataError
from diffmask.tasks.text import NextToken, TextClassification
from diffmask.tasks.units import special_ids
from tiny_text import make_tokenizer

WRITTEN = "[CLS] a funny [SEP] movie"


@pytest.mark.parametrize("unit", ["token", "word"])
def test_special_tokens_in_a_prompt_are_never_gated(unit):
    task = NextToken(make_tokenizer("left", causal=True), [], [], unit=unit)
    assert task.units([WRITTEN]) == [["a", "fun", "##ny"] if unit == "token" else ["a", "funny"]]


def test_elsewhere_they_are_gated_if_the_others_are():
    gated, kept = (TextClassification(make_tokenizer(), [], [], gate_special=gate) for gate in (True, False))
    assert gated.units([WRITTEN]) == [["[CLS]", "[CLS]", "a", "fun", "##ny", "[SEP]", "movie", "[SEP]"]]
    assert kept.units([WRITTEN]) == [["a", "fun", "##ny", "movie"]]


def test_in_a_sentence_they_stay_where_the_sentence_goes():
    task = TextClassification(make_tokenizer(), [], [], unit="sentence", gate_special=False)
    assert task.collate([WRITTEN]).place.tolist() == [[-1, -1, 0, 0, 0, -1, 0, -1]]


def test_tokens_of_a_chat_template_are_special_if_the_tokenizer_says_so():
    tokenizer = make_tokenizer("left", causal=True)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|user|>"]})
    tokenizer.add_tokens(["<tool>"])
    task = NextToken(tokenizer, [], [])
    assert task.units(["<|user|> a <tool> movie ?"]) == [["a", "<tool>", "movie"]]


def test_unknown_and_masked_words_stand_for_something():
    task = TextClassification(make_tokenizer(mask_token="what"), [], [], gate_special=False)
    assert task.units(["[UNK] what zebra movie"]) == [["[UNK]", "what", "[UNK]", "movie"]]


def test_an_unknown_word_whose_token_also_ends_a_text_is_special_as_gpt2s():
    tokenizer = make_tokenizer(causal=True, unk_token="[SEP]", eos_token="[SEP]")
    assert tokenizer.eos_token_id in special_ids(tokenizer)
    padded = make_tokenizer(causal=True, pad_token="[UNK]")
    assert padded.unk_token_id not in special_ids(padded)


def test_a_text_of_special_tokens_alone_is_explained_by_them_or_refused():
    gated, kept = (TextClassification(make_tokenizer(), [], [], gate_special=gate) for gate in (True, False))
    assert gated.units(["[CLS] [SEP]"]) == [["[CLS]", "[CLS]", "[SEP]", "[SEP]"]]
    with pytest.raises(DataError, match="an example has no units"):
        kept.collate(["[CLS] [SEP]"])
