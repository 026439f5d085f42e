"""Corpora read from small copies of their files."""

import json
import lzma

import pytest

from diffmask.errors import DataError, UnknownNameError
from diffmask.tasks.corpora import CORPORA, read_corpus, read_user_corpus

WORDS = "the team won a very long game today"


def write_lines(path, rows):
    path.write_bytes(lzma.compress("\n".join(json.dumps(row) for row in rows).encode()))


@pytest.fixture
def data(tmp_path):
    """Lay out a small copy of every corpus."""
    (tmp_path / "sst").mkdir()
    tree = "({label} (2 It) (2 (2 's) (2 (2 a) (2 (2 long) (2 (2 3-hour) (2 (2 film) (2 .)))))))"
    short = "(4 (2 good) (2 film))"
    for split in ("train", "dev", "test"):
        trees = [tree.format(label=label) for label in (0, 1, 2, 3, 4)]
        (tmp_path / "sst" / f"{split}.txt").write_text("\n".join([*trees, short]))
    post = "From: x\n\n" + WORDS + " {row}"
    posts = [{"split": "train", "label": row % 2, "text": post.format(row=row)} for row in range(20)]
    write_lines(tmp_path / "20news_sports.jsonl.xz", posts)
    news = [
        {"split": split, "label": row % 2, "title": "T", "text": f"{WORDS} 2004."}
        for split in ("train", "test")
        for row in range(40)
    ]
    write_lines(tmp_path / "ag_news.jsonl.xz", news)
    for split in ("train", "test"):
        reviews = [{"label": row % 2, "text": f"It's {WORDS}!<br />"} for row in range(20)]
        long = {"label": 0, "text": "word " * 400}
        write_lines(tmp_path / f"imdb_{split}.jsonl.xz", [*reviews, long])
    (tmp_path / "mimic.csv").write_text(
        "text,label,split\n"
        + "\n".join(f"Seen {row} times,{row % 2},{('train', 'dev', 'test')[row // 4]}" for row in range(12))
    )
    return tmp_path


@pytest.mark.parametrize(
    ("name", "sizes", "text"),
    [
        ("sst", (4, 4, 4), "it s a long 3 hour film"),
        ("20news", (12, 4, 4), None),
        ("ag", (34, 6, 40), f"{WORDS} qqq ."),
        ("imdb", (16, 4, 20), f"it's {WORDS} br"),
        ("mimic", (4, 4, 4), "seen qqq times"),
    ],
)
def test_corpora_are_cleaned_filtered_and_split(data, name, sizes, text):
    corpus = read_corpus(name, data)
    assert tuple(len(split) for split in (corpus.train, corpus.dev, corpus.test)) == sizes
    assert {document.label for document in corpus.train} == {0, 1} and len(corpus.labels) == 2
    assert corpus.name == name and corpus.note
    assert text is None or {document.text for document in corpus.train} == {text}


def test_reading_twice_gives_the_same_splits(data):
    assert all(read_corpus(name, data) == read_corpus(name, data) for name in CORPORA.names)


def test_a_file_of_ones_own_is_split_by_its_column(tmp_path):
    rows = [
        {"review": f"Good {row}", "stars": row % 3, "part": "validation" if row > 8 else "train"} for row in range(12)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    corpus = read_user_corpus(path, text="review", label="stars", split="part")
    assert (len(corpus.train), len(corpus.dev), corpus.labels) == (9, 3, ("0", "1", "2"))


def test_a_file_of_ones_own_is_split_by_seed_and_loses_empty_documents(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("text,label\n" + "\n".join(f"{'' if row < 2 else 'word'},{row % 2}" for row in range(102)))
    corpus = read_user_corpus(path)
    assert sum(len(split) for split in (corpus.train, corpus.dev, corpus.test)) == 100
    assert corpus == read_user_corpus(path) and corpus != read_user_corpus(path, seed=1)


def test_missing_columns_are_named_beside_those_found(tmp_path):
    (tmp_path / "mine.csv").write_text("review,label\na,1\n")
    with pytest.raises(DataError, match="no column 'text'; it has 'review', 'label'"):
        read_user_corpus(tmp_path / "mine.csv")


def test_a_split_of_another_name_is_refused(tmp_path):
    (tmp_path / "mine.csv").write_text("text,label,split\na,1,held\n")
    with pytest.raises(DataError, match="column 'split' holds 'held'; it takes train, dev, test"):
        read_user_corpus(tmp_path / "mine.csv", split="split")


def test_a_corpus_of_one_class_is_refused(data):
    write_lines(data / "ag_news.jsonl.xz", [{"split": "train", "label": 1, "text": "a"}] * 20)
    with pytest.raises(DataError, match="the ag train documents have only label 1"):
        read_corpus("ag", data)


def test_an_unknown_corpus_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'imdb'"):
        read_corpus("imbd", tmp_path)
    with pytest.raises(DataError, match=r"no file .*mimic\.csv"):
        read_corpus("mimic", tmp_path)
