"""The data sets of the attention studies, with Jain and Wallace's (2019) preprocessing.

Their splits cannot all be had: each corpus says in its `note` what is theirs and what is ours. Lengths are counted in
words, start and end not included. Theirs were strict bounds, so "more than 5" is `within(6)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import DataError
from ..registry import Registry
from .clean import Cut, clean, clean_post, clean_review, clean_sentence, cut
from .documents import Corpus, Document, check_classes, split_documents
from .labelled import class_number, read_rows
from .newsgroups import strip_post
from .sst import binary_sentences, read_sst
from .tables import Row

CORPORA = Registry(
    "corpus",
    {
        "sst": "diffmask.tasks.corpora:read_sentiment",
        "20news": "diffmask.tasks.corpora:read_newsgroups",
        "ag": "diffmask.tasks.corpora:read_news",
        "imdb": "diffmask.tasks.corpora:read_reviews",
        "mimic": "diffmask.tasks.corpora:read_notes",
    },
)
SPLITS = ("train", "dev", "test")


def read_corpus(name: str, directory: Path, cut: Cut = cut) -> Corpus:
    """Read a corpus by its name from the directory that holds its files."""
    corpus: Corpus = CORPORA.get(name)(directory, cut)
    for split in SPLITS:
        check_classes(getattr(corpus, split), f"{name} {split}")
    return corpus


def read_sentiment(directory: Path, cut: Cut = cut) -> Corpus:
    """Read the treebank's sentences that are not neutral, of more than 5 words, from `sst/`."""
    train, dev, test = (
        tuple(Document(clean_sentence(text, cut), label) for text, label in binary_sentences(sentences))
        for sentences in (read_sst(directory / "sst", split) for split in SPLITS)
    )
    return Corpus("sst", train, dev, test, ("negative", "positive"), least=1, note="official splits").within(6)


def read_newsgroups(directory: Path, cut: Cut = cut) -> Corpus:
    """Read baseball and hockey posts without header, signature and quotes, of 7 to 499 words."""
    rows = read_rows(directory / "20news_sports.jsonl.xz", ("text", "label"))
    every = _documents(rows, lambda text: clean_post(strip_post(text), cut))
    rest, test = split_documents(every, 0.2, 13478)
    train, dev = split_documents(rest, 0.2, 13478)
    note = "split anew, 64/16/20 by class: theirs hangs on scikit-learn's order of the posts"
    return Corpus("20news", train, dev, test, ("baseball", "hockey"), least=2, note=note).within(7, 499)


def read_news(directory: Path, cut: Cut = cut) -> Corpus:
    """Read AG's descriptions of world and business news; titles are left out."""
    rows = read_rows(directory / "ag_news.jsonl.xz", ("text", "label", "split"))
    by_split = ([row for row in rows if row["split"] == split] for split in ("train", "test"))
    rest, test = (_documents(part, partial(clean, cut=cut)) for part in by_split)
    train, dev = split_documents(rest, 0.15, 16377)
    note = "official test set; the training rows at hand, of 60 000, 15 % of them for dev"
    return Corpus("ag", train, dev, test, ("world", "business"), least=5, note=note).within(1)


def read_reviews(directory: Path, cut: Cut = cut) -> Corpus:
    """Read film reviews of 7 to 399 words, cut as Keras does."""
    train, test = (
        _documents(read_rows(directory / f"imdb_{split}.jsonl.xz", ("text", "label")), clean_review)
        for split in ("train", "test")
    )
    train, dev = split_documents(train, 0.2, 1378)
    note = "samples of the official splits, 20 % of the training reviews for dev: their own sample cannot be recovered"
    return Corpus("imdb", train, dev, test, ("negative", "positive"), least=10, note=note).within(7, 399)


def read_notes(directory: Path, cut: Cut = cut) -> Corpus:
    """Read MIMIC's notes from `mimic.csv` or `mimic.jsonl`, if you have the licence and made that file.

    One discharge note a row: `text`; `label`, 1 for the diagnosis (anemia: chronic as against acute; diabetes: present
    as against not); `split`, one of train, dev, test. No patient may be in two splits. Raw notes are fine: they are
    cleaned here, every number becoming one word.
    """
    found = next((path for path in directory.glob("mimic.*")), directory / "mimic.csv")
    corpus = read_user_corpus(found, split="split", cut=cut)
    return replace(corpus, name="mimic", labels=("absent", "present"), least=5, note="the user's own extract")


def read_user_corpus(
    path: Path,
    *,
    text: str = "text",
    label: str = "label",
    split: str | None = None,
    seed: int = 0,
    cut: Cut = cut,
    least: int = 1,
) -> Corpus:
    """Read a CSV, TSV or JSON-lines file of one's own; the arguments name its columns.

    Without a column that says train, dev or test, a fifth of each class is held out for test and a fifth of the rest
    for dev. Documents without words are left out.
    """
    rows = read_rows(path, [text, label, *([split] if split else [])])
    every = [(_place(row, split, path), _document(row, partial(clean, cut=cut), text, label)) for row in rows]
    parts = {name: tuple(document for place, document in every if place == name) for name in SPLITS}
    if split is None:
        rest, parts["test"] = split_documents([document for _, document in every], 0.2, seed)
        parts["train"], parts["dev"] = split_documents(rest, 0.2, seed)
    names = tuple(str(number) for number in range(1 + max(document.label for _, document in every)))
    note = f"from {path.name}"
    return Corpus(path.stem, parts["train"], parts["dev"], parts["test"], names, least, note).within(1)


def _place(row: Row, split: str | None, path: Path) -> str:
    """Return the split of a row; "valid" and "validation" mean dev."""
    name = "train" if split is None else {"valid": "dev", "validation": "dev"}.get(row[split], row[split])
    if name not in SPLITS:
        raise DataError(f"{path}: column '{split}' holds {name!r}; it takes {', '.join(SPLITS)}")
    return name


def _documents(rows: list[Row], clean_text: Callable[[str], str]) -> tuple[Document, ...]:
    return tuple(_document(row, clean_text) for row in rows)


def _document(row: Row, clean_text: Callable[[str], str], text: str = "text", label: str = "label") -> Document:
    return Document(clean_text(str(row[text])), class_number(row[label], f"column '{label}'"))
