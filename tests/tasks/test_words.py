"""The vocabulary: who gets which number."""

import pytest

from diffmask.errors import DataError
from diffmask.tasks.words import END, MASK, START, Vocabulary


def test_rare_words_share_a_number_and_padding_has_none_of_theirs():
    vocabulary = Vocabulary(["a gem a", "A bore"], least=2)
    assert vocabulary.numbers("a gem") == [2, 1] and len(vocabulary) == 3


def test_least_counts_words_or_texts():
    texts = ["twice twice", "once both", "both"]
    assert set(Vocabulary(texts, 2).number) == {"twice", "both"}
    assert set(Vocabulary(texts, 2, count="texts").number) == {"both"}


def test_special_words_come_first_and_are_never_read_out_of_a_text():
    vocabulary = Vocabulary(["<mask> a <start>"], 1, (START, END, MASK))
    assert (vocabulary.bos_token_id, vocabulary.eos_token_id, vocabulary.mask_token_id) == (2, 3, 4)
    assert vocabulary.numbers("<mask> a <start>") == [1, 5, 1]
    assert vocabulary.first_word == 5 and len(vocabulary) == 6 and vocabulary.all_special_ids == [0, 1, 2, 3, 4]
    assert [vocabulary.convert_ids_to_tokens(n) for n in range(6)] == ["<padding>", "<unknown>", START, END, MASK, "a"]


def test_a_vocabulary_without_special_words_says_so():
    vocabulary = Vocabulary(["a b"], 1)
    assert vocabulary.mask_token_id is vocabulary.bos_token_id is None and vocabulary.first_word == 2


def test_empty_texts_are_refused():
    with pytest.raises(DataError, match="text 1 has no words"):
        Vocabulary(["a"], 1).encode(["a", " "])
