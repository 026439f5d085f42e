"""A post without what gives its group away."""

from diffmask.tasks.newsgroups import strip_post, without_header, without_quotes, without_signature

POST = """From: a@b.c
Subject: records

In article <1> x@y.z writes:
> They lost.
| indeed
He said: no.
I saw them win.

They did.
--
My name
"""


def test_header_quotes_and_signature_go():
    assert strip_post(POST).split() == ["I", "saw", "them", "win.", "They", "did."]


def test_the_header_ends_at_the_first_empty_line():
    assert without_header("a: b\n\nc\n\nd") == "c\n\nd" and without_header("a: b") == ""


def test_the_signature_starts_at_the_last_empty_or_dashed_line():
    assert without_signature("a\n\nb\n---\nc") == "a\n\nb"
    assert without_signature("a\nb") == "a\nb"


def test_lines_that_quote_go_and_others_stay():
    assert without_quotes("> a\nb > c\n| d\nx wrote:\nIn article 5\ne") == "b > c\ne"
