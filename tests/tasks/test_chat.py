"""Segments in a chat template: the text the template would make, whose own words are always kept."""

import pytest

from diffmask.errors import DataError
from diffmask.tasks.continuation import in_chat
from diffmask.tasks.text import Kept, NextToken
from diffmask.tasks.units import Template, parts_of, spans_of
from tiny_text import make_tokenizer

TURN = "{% for m in messages %}<user>{{ m['content'] }}</user>{% endfor %}"


def chat_tokenizer(template, **names):
    tokenizer = make_tokenizer("left", causal=True, **names)
    tokenizer.chat_template = template
    return tokenizer


def test_a_chat_template_goes_around_the_segments_and_is_kept():
    tokenizer = chat_tokenizer("{% for m in messages %}what {{ m['content'] }} .{% endfor %} a")
    segments = in_chat(tokenizer, ["a funny movie", "fast"])
    assert segments == ["what ", "a funny movie", "fast", " . a"]
    assert [isinstance(segment, Kept) for segment in segments] == [True, False, False, True]
    task = NextToken(tokenizer, [], [], unit="segment")
    assert task.units([segments]) == [["a funny movie", "fast"]]


@pytest.mark.parametrize("segments", [["a fast"], ["a funny movie", "fast", Kept("what ?")]])
@pytest.mark.parametrize("template", [TURN, "{% for m in messages %}what {{ m['content'] }} .{% endfor %}"])
def test_segments_in_a_chat_are_the_text_the_template_would_make(template, segments):
    tokenizer = chat_tokenizer(template)
    asked = [{"role": "user", "content": " ".join(segments)}]
    plain = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    assert parts_of(in_chat(tokenizer, segments)) == [plain]


def test_the_spans_of_a_chat_cover_its_segments():
    segments = in_chat(chat_tokenizer(TURN), ["a fast", "movie"])
    (text,) = parts_of(segments)
    spans = spans_of(segments, "segment")
    assert [text[span.start : span.end] for span in spans] == segments
    assert [span.gated for span in spans] == [False, True, True, False]


def test_template_words_join_without_a_space_and_kept_ones_with_one():
    assert parts_of([Template("<user>"), "a", Kept("b"), "c", Template("</user>")]) == ["<user>a b c</user>"]


def test_the_begin_of_a_text_is_not_doubled():
    tokenizer = chat_tokenizer("{{ bos_token }}" + TURN, bos_token="[CLS]")
    segments = in_chat(tokenizer, ["a fast movie"])
    assert segments[0] == "<user>"
    assert tokenizer(*parts_of(segments))["input_ids"].count(1) == 1


def test_a_begin_that_the_tokenizer_does_not_add_stays():
    tokenizer = chat_tokenizer("{{ bos_token }}" + TURN, bos_token="[UNK]")
    assert in_chat(tokenizer, ["a fast movie"])[0] == "[UNK]<user>"


def test_settings_reach_the_template():
    tokenizer = chat_tokenizer("{{ mood }} " + TURN)
    assert in_chat(tokenizer, ["a movie"], mood="fun")[0] == "fun <user>"


@pytest.mark.parametrize(("template", "count"), [(TURN + TURN, 2), ("nothing of it", 0)])
def test_a_template_that_does_not_show_the_content_once_is_refused(template, count):
    with pytest.raises(
        DataError, match=rf"shows what the user says {count} times, .*build the prompt yourself, with Kep"
    ):
        in_chat(chat_tokenizer(template), ["a fast movie"])
