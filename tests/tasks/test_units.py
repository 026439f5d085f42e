"""What a unit of text is: which tokens belong to it, what it is called, and what is never gated."""

import logging

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from diffmask.errors import DataError
from diffmask.tasks.text import Kept, NextToken, TextClassification
from diffmask.tasks.units import spans_of
from tiny_text import TEXTS, make_tokenizer


def make_task(kind=TextClassification, side="right", longest=24, **settings):
    return kind(make_tokenizer(side, longest, causal=kind is NextToken), TEXTS, TEXTS, **settings)


def places(task, text):
    """Return the place of each token and the names of the units of one text."""
    batch, (names,) = task.collate([text]), task.units([text])
    assert int(batch.valid.sum()) == len(names)
    if batch.place is None:
        return torch.where(batch.valid, batch.valid.cumsum(1) - 1, -1)[0].tolist(), names
    return batch.place[0].tolist(), names


def test_a_word_is_all_its_tokens_and_special_tokens_are_units_of_their_own():
    place, names = places(make_task(unit="word"), "a funny movie .")
    assert place == [0, 1, 2, 2, 3, 4, 5]
    assert names == ["[CLS]", "a", "funny", "movie", ".", "[SEP]"]


def test_special_tokens_are_no_units_when_they_are_not_gated():
    place, names = places(make_task(unit="word", gate_special=False), "a funny movie .")
    assert place == [-1, 0, 1, 1, 2, 3, -1] and names == ["a", "funny", "movie", "."]


def test_the_same_word_twice_is_two_units():
    assert places(make_task(unit="word", gate_special=False), "funny . funny")[0] == [-1, 0, 0, 1, 2, 2, -1]


def test_words_of_a_pair_are_told_apart_by_their_text():
    place, names = places(make_task(unit="word", gate_special=False), ("funny", "funny movie"))
    assert place == [-1, 0, 0, -1, 1, 1, 2, -1] and names == ["funny", "funny", "movie"]


def test_a_sentence_ends_with_its_mark():
    place, names = places(make_task(unit="sentence", gate_special=False), "A funny movie. Fast!  What movie?")
    assert place == [-1, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, -1]
    assert names == ["A funny movie.", "Fast!", "What movie?"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two", ["One.", "Two"]),
        ("Is 3.5 one?! Yes.", ["Is 3.5 one?!", "Yes."]),
        ('He said "no." Then left', ['He said "no."', "Then left"]),
        ("a line\nanother", ["a line\n", "another"]),
        ("no mark", ["no mark"]),
        ("这是好电影。我喜欢。真的吗？", ["这是好电影。", "我喜欢。", "真的吗？"]),
        ("彼は「はい！」と言った。Yes. 「終？」 2.5", ["彼は「はい！」と言った。", "Yes.", "「終？」", "2.5"]),
        ("真的吗？！是。", ["真的吗？！", "是。"]),
    ],
)
def test_sentences_are_found_by_their_marks(text, sentences):
    assert [text[span.start : span.end] for span in spans_of(text, "sentence")] == sentences


def test_sentences_of_both_parts_of_a_pair_are_units():
    place, names = places(make_task(unit="sentence", gate_special=False), ("what ?", "a movie . funny ."))
    assert place == [-1, 0, 0, -1, 1, 1, 1, 2, 2, 2, -1] and names == ["what ?", "a movie .", "funny ."]


def test_segments_are_the_users_and_kept_ones_are_no_units():
    text = ["a funny movie", "fast .", Kept("what movie ?")]
    place, names = places(make_task(unit="segment", gate_special=False), text)
    assert place == [-1, 0, 0, 0, 0, 1, 1, -1, -1, -1, -1] and names == ["a funny movie", "fast ."]


def test_the_same_segments_kept_or_not_are_two_texts():
    task = make_task(unit="segment", gate_special=False)
    assert task.units([["fast", Kept("movie")], ["fast", "movie"], ["fast", Kept("movie")]]) == [
        ["fast"],
        ["fast", "movie"],
        ["fast"],
    ]


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
def test_a_kept_segment_is_kept_whatever_the_unit(unit):
    place, _ = places(make_task(unit=unit, gate_special=False), ["a movie .", Kept("what ?")])
    assert place[-3:] == [-1, -1, -1]


def test_a_segment_needs_a_list_of_segments():
    with pytest.raises(DataError, match=r"unit 'segment' takes each text as a list of segments, got str.*Kept"):
        make_task(unit="segment").collate(["a funny movie"])


@pytest.mark.parametrize("unit", ["token", "word"])
def test_units_named_by_keep_are_never_dropped(unit):
    place, names = places(make_task(unit=unit, keep=["A", "?", "movie"], gate_special=False), "a fast movie ?")
    assert place == [-1, -1, 0, -1, -1, -1] and names == ["fast"]


@pytest.mark.parametrize(
    ("unit", "keep", "names"),
    [
        ("token", ["funny"], ["a", "movie", "."]),
        ("word", ["Fun"], ["a", "funny", "movie", "."]),  # a part of a word is another word
        ("token", ["a FUNNY"], ["movie", "."]),
        ("sentence", ["movie"], []),
        ("token", ["[CLS]", "[SEP]"], ["a", "fun", "##ny", "movie", "."]),
    ],
)
def test_a_word_to_keep_stays_however_it_is_cut_and_with_it_the_unit_that_holds_it(unit, keep, names):
    task = make_task(unit=unit, keep=[*keep], gate_special=keep == ["[CLS]", "[SEP]"])
    assert task.encoded("a funny movie .").names == names


def letters_tokenizer(kind, text):
    """Cut a text into bytes as GPT-2, or into letters as Llama 2 where it knows no longer piece."""
    if kind == "bytes":
        inner = Tokenizer(models.BPE({letter: i for i, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        inner = Tokenizer(models.Unigram([(letter, -1.0) for letter in {"▁", *text}], unk_id=0))
        inner.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", model_max_length=99)


@pytest.mark.parametrize("kind", ["bytes", "letters"])
@pytest.mark.parametrize("keep", ["café", "not", "isn't", "Oslo", "?", "the café"])
def test_a_word_to_keep_is_found_in_bytes_and_letters_and_not_in_a_longer_word(kind, keep):
    text = "nothing isn't in the café Oslo's not cannot ?"
    tokenizer = letters_tokenizer(kind, text)
    place = TextClassification(tokenizer, [], [], keep=[keep.upper()]).encoded(text).place
    held = {offset for offset, unit in zip(tokenizer(text).encodings[0].offsets, place, strict=True) if unit < 0}
    start = text.index("not cannot") if keep == "not" else text.index(keep)
    assert held == {(i, i + 1) for i in range(start, start + len(keep))}


@pytest.mark.parametrize("written", ["▁Movie", "ĠMovie", "##Movie", "Movie"])
def test_a_word_to_keep_is_found_by_a_slow_tokenizer_whatever_it_marks_words_with(written):
    task = TextClassification(ByT5Tokenizer(), [], [], keep=["movie"])
    task.tokenizer.convert_ids_to_tokens = lambda ids: ["a", written, "</s>"]
    assert task.encoded("a ").names == ["a", "</s>"]


@pytest.mark.parametrize("keep", ["not", ["not", " "]])
def test_what_is_no_list_of_words_to_keep_is_refused(keep):
    with pytest.raises(DataError, match=r"keep takes a list of words, got .*: write keep=\['not'\]"):
        make_task(keep=keep)


@pytest.mark.parametrize(("gate", "names"), [("first", ["what", "?"]), ("second", ["funny", "movie"])])
def test_of_a_pair_one_part_may_be_gated(gate, names):
    task = make_task(unit="word", gate=gate, gate_special=False)
    assert places(task, ("what ?", "funny movie"))[1] == names


@pytest.mark.parametrize("kind", [TextClassification, NextToken])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_texts_are_padded_on_the_right_whatever_the_tokenizer_is_set_to_and_it_stays_so(kind, unit):
    right, left = (make_task(kind, side=side, unit=unit) for side in ("right", "left"))
    for one, other in zip(right.collate(TEXTS).tensors, left.collate(TEXTS).tensors, strict=True):
        assert torch.equal(one, other)
    assert left.tokenizer.padding_side == "left" and left.tokenizer("a", padding="max_length")["input_ids"][0] == 0


@pytest.mark.parametrize("gate", ["first", "second"])
@pytest.mark.parametrize("text", ["a movie", ["a movie", "fast"]])
def test_a_part_to_gate_needs_a_pair(gate, text):
    with pytest.raises(
        DataError, match=rf"gate '{gate}' names a part of a pair, got .*: give a pair \(first, second\)"
    ):
        make_task(gate=gate).collate([text])


@pytest.mark.parametrize(("gate", "pair"), [("first", (" ", "a movie")), ("second", ("what ?", ""))])
def test_a_part_to_gate_that_is_empty_is_refused(gate, pair):
    with pytest.raises(
        DataError, match=rf"the {gate} part of a pair is empty, and gate '{gate}' drops nothing else: lea"
    ):
        make_task(gate=gate).collate([pair])


@pytest.mark.parametrize("text", [Kept("a movie"), (Kept("what ?"), "a movie"), ("what ?", Kept("a movie"))])
def test_what_is_kept_outside_of_a_list_of_segments_is_refused(text):
    with pytest.raises(
        DataError, match=r"Kept marks a segment of a list, got .*: write \[.*\], or gate one part of a pair"
    ):
        make_task().collate([text])


@pytest.mark.parametrize(
    ("settings", "needs"), [({"unit": "word"}, "unit 'word'"), ({"gate": "second"}, "gate 'second'")]
)
def test_a_slow_tokenizer_is_refused_where_places_in_the_text_are_needed(settings, needs):
    wanted = f"ByT5Tokenizer does not say where its tokens stand in the text, which {needs} needs: .*a fast tokenizer"
    with pytest.raises(DataError, match=wanted):
        TextClassification(ByT5Tokenizer(), [], [], **settings)


def test_so_it_is_for_a_segment_that_is_kept():
    task = TextClassification(ByT5Tokenizer(), [], [])
    with pytest.raises(DataError, match=r"ByT5Tokenizer does not say where .*, which Kept needs: .*a fast tokenizer"):
        task.collate([["a", Kept("b")]])
    assert len(task.units([["a", "b"]])[0]) == 4


def test_what_is_cut_off_is_no_unit(caplog):
    task = make_task(unit="word", longest=5)
    with caplog.at_level(logging.WARNING):
        place, names = places(task, "a fast movie . funny")
    assert place == [0, 1, 2, 3, 4] and names == ["[CLS]", "a", "fast", "movie", "[SEP]"]
    task.collate(["a fast movie . funny"])
    assert caplog.text.count("has 8 tokens and the model takes 5") == 1  # said once, though met often
    assert "3 of them are cut off and not explained" in caplog.text


@pytest.mark.parametrize("kind", [NextToken, TextClassification])
@pytest.mark.parametrize("longest", [6, 10])
def test_a_cut_through_a_kept_segment_is_refused(kind, longest):
    task = make_task(kind, unit="segment", longest=longest)
    wanted = (
        rf"has 1[23] tokens and the model takes {longest}: .*; what would be cut off is in a segment that is Kept: sho"
    )
    with pytest.raises(DataError, match=wanted):
        task.collate([["a fast movie .", "a funny .", Kept("what movie ?")]])


def test_what_is_cut_may_stand_after_a_kept_segment_or_before_it(caplog):
    after, before = make_task(unit="segment", longest=8), make_task(unit="segment", longest=8)
    before.tokenizer.truncation_side = "left"
    assert after.units([[Kept("what movie ?"), "a fast movie", "fast ."]])[0][1] == "a fast movie"
    assert before.units([["fast .", "a fast movie", Kept("what movie ?")]])[0][-2] == "a fast movie"
    assert caplog.text.count("are cut off and not explained") == 2


def test_a_word_that_is_cut_in_the_middle_is_what_is_left_of_it():
    place, names = places(make_task(unit="word", longest=4, gate_special=False), "a funny")
    assert place == [-1, 0, 1, -1] and names == ["a", "fun"]


def test_texts_and_pairs_and_segments_mix_in_one_batch():
    task = make_task(unit="word", gate_special=False)
    batch = task.collate(["funny", ("what", "movie ?"), ["a", "fast movie"]])
    assert batch.valid.sum(1).tolist() == [1, 3, 3] and batch.inputs["token_type_ids"][1].sum() == 3


def test_the_last_token_of_a_causal_text_is_asked_and_never_gated():
    batch = make_task(NextToken, unit="word").collate(["a funny", "a movie", "enjoyable movie"])
    assert batch.place.tolist() == [[-1, 0, 1, -1], [-1, 0, -1, -1], [-1, 0, 0, -1]] and batch.ask.tolist() == [3, 2, 3]


def byte_level_tokenizer():
    """Cut a text as GPT-2, Llama 3 and Qwen do: the space before a word is part of its token and of its span."""
    words = ["<pad>", "The", "Ġcode", "Ġis", "Ġ7", ".", "ĠThe", "Ġsky", "Ġ."]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.post_processor = processors.ByteLevel(trim_offsets=False)
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", model_max_length=64)


@pytest.mark.parametrize(
    ("unit", "text"), [("segment", ["The code is 7.", "The sky is ."]), ("sentence", "The code is 7. The sky is .")]
)
def test_a_token_that_holds_the_space_before_a_unit_belongs_to_it(unit, text):
    task = TextClassification(byte_level_tokenizer(), [], [], unit=unit)
    place, names = places(task, text)
    assert place == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1][: len(place)] and names[1].startswith("The sky")


def sentence_piece_tokenizer():
    """Cut a text as Llama 2 and Gemma do, for which a whole text is one word."""
    pieces = ["▁Tom", "▁lives", "▁in", "▁Os", "lo", ".", "▁", "▁is", "n't", "\n"]
    inner = Tokenizer(models.Unigram([("<unk>", -9.0), *((piece, -1.0) for piece in pieces)], unk_id=0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", unk_token="<unk>", model_max_length=64)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("Tom lives in Oslo.", [0, 1, 2, 3, 3, 3], ["Tom", "lives", "in", "Oslo."]),
        ("Tom  isn't\nlo.", [0, 1, 1, 1, 2, 2, 2], ["Tom", "isn't", "lo."]),
        (("Tom lives", "Tom lives"), [0, 1, 2, 3], ["Tom", "lives", "Tom", "lives"]),
    ],
)
def test_words_are_cut_at_white_space_by_a_tokenizer_that_takes_a_text_for_one(text, place, words):
    assert places(TextClassification(sentence_piece_tokenizer(), [], [], unit="word"), text) == (place, words)


@pytest.mark.parametrize(
    ("text", "keep", "held"),
    [("我不喜欢", "不", "不"), ("die Straße hier", "Straße", "Straße"), ("ein Buch", "Bu", "")],
)
def test_a_word_to_keep_is_found_where_no_space_parts_words_and_with_letters_that_fold(text, keep, held):
    tokenizer = letters_tokenizer("bytes", text)
    place = TextClassification(tokenizer, [], [], keep=[keep]).encoded(text).place
    offsets = zip(tokenizer(text).encodings[0].offsets, place, strict=True)
    assert {letter for (start, end), unit in offsets if unit < 0 for letter in text[start:end]} == {*held}
