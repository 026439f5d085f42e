"""Answered questions: only certain spans count, and no passage is on both sides of a split."""

import gzip
import json

import pytest

from diffmask.errors import DataError
from diffmask.tasks.squad import Answered, read_squad, split_by_article

PASSAGE = "Ada wrote to Bob. Bob read it in Rome."


def answer(text, occurrences=None, start=None):
    found = {"text": text, "answer_start": PASSAGE.index(text) if start is None else start}
    return found if occurrences is None else {**found, "occurrences": occurrences}


def article(title="Letters", **questions):
    asked = [{"question": question, "answers": answers} for question, answers in questions.items()]
    return {"title": title, "paragraphs": [{"context": PASSAGE, "qas": asked}]}


def write(path, *articles):
    content = json.dumps({"version": "1.1", "data": list(articles)}).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["dev.json", "dev.json.gz"])
def test_a_file_is_read_plain_or_gzipped(tmp_path, name):
    path = write(tmp_path / name, article(**{" Where? ": [answer("Rome")]}), article("Other", Who=[answer("Ada")]))
    where, who = read_squad(path)
    assert where == Answered("Letters", "Where?", PASSAGE, ((33, 37),)) and PASSAGE[33:37] == "Rome"
    assert where.pair == ("Where?", PASSAGE)
    assert who.article == "Other" and who.spans == ((0, 3),)


def test_a_span_is_certain_only_if_its_answer_occurs_once(tmp_path):
    both = article(who=[answer("Bob", occurrences=2), answer("Ada", occurrences=1)], whom=[answer("Bob", 2)])
    (found,) = read_squad(write(tmp_path / "dev.json", both))
    assert found.question == "who" and found.spans == ((0, 3),)


def test_a_span_is_certain_where_the_file_does_not_count(tmp_path):
    (found,) = read_squad(write(tmp_path / "dev.json", article(who=[answer("Bob")])))
    assert found.spans == ((13, 16),)


def test_equal_answers_are_one_span_and_spans_are_in_order(tmp_path):
    said = [answer("Rome"), answer("Ada"), answer("Rome")]
    (found,) = read_squad(write(tmp_path / "dev.json", article(what=said)))
    assert found.spans == ((0, 3), (33, 37))


def test_a_question_without_an_answer_in_the_passage_is_left_out(tmp_path):
    path = write(tmp_path / "dev.json", article(none=[], empty=[answer("")], beyond=[answer("Rome", start=99)]))
    assert read_squad(path) == []


def test_a_missing_file_is_named_with_how_to_give_it(tmp_path):
    with pytest.raises(DataError, match=r"no file .*dev\.json: give the directory of the data with --data or DIFFMASK"):
        read_squad(tmp_path / "dev.json")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dev.json", b"{cut"),
        ("dev.json", b"[]"),
        ("dev.json", b"{}"),
        ("dev.json", b"\xff\xfe\x00"),
        ("dev.json.gz", b"not gzipped"),
        ("dev.json.gz", gzip.compress(b'{"data": []}', mtime=0)[:-9]),  # cut off
        ("dev.json", b'{"data": [{"title": "no paragraphs"}]}'),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"dev\.json.* is not SQuAD JSON .*it holds 'data', a list of articles"):
        read_squad(tmp_path / name)


def questions_of(*titles):
    return [Answered(title, "?", f"passage of {title}", ((0, 1),)) for title in titles]


@pytest.mark.parametrize("held_out", [1, 2])
def test_no_passage_is_on_both_sides_of_a_split(held_out):
    asked = questions_of("c", "a", "b", "a", "c", "b", "b")
    train, other = split_by_article(asked, held_out)
    assert not {q.passage for q in train} & {q.passage for q in other}
    assert {q.article for q in other} == set("abc"[3 - held_out :])
    assert len(train) + len(other) == len(asked)


def test_a_split_keeps_the_order_of_the_questions():
    first, second = questions_of("a", "a")
    assert split_by_article([second, *questions_of("b"), first], 1)[0] == [second, first]


def test_holding_out_nothing_leaves_all():
    assert split_by_article(questions_of("a", "b"), 0) == (questions_of("a", "b"), [])


def test_holding_out_every_article_is_refused():
    with pytest.raises(DataError, match="2 of 2 articles held out leave none to train on: hold out fewer"):
        split_by_article(questions_of("a", "b"), 2)
