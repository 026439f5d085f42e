"""Documents whose class one word gives away, and classifiers small enough to train on them in a second."""

import random

from diffmask.attention.classifier import make_classifier
from diffmask.attention.config import AttentiveConfig
from diffmask.tasks.documents import Corpus, Document, DocumentTask

FILLER = [f"w{i}" for i in range(30)]


def make_documents(count, seed, classes=2, longest=9):
    """Draw filler words and one word that names the class."""
    dice, found = random.Random(f"documents {seed}"), []
    for row in range(count):
        words = [dice.choice(FILLER) for _ in range(dice.randint(2, longest))]
        words[dice.randrange(len(words))] = f"class{row % classes}"
        found.append(Document(" ".join(words), row % classes))
    return tuple(found)


def make_corpus(count=96, classes=2):
    names = tuple(map(str, range(classes)))
    return Corpus("toy", *(make_documents(count, seed, classes) for seed in range(3)), names)


def make_task(corpus, **settings):
    texts = [[document.text for document in split] for split in (corpus.train, corpus.dev)]
    return DocumentTask(corpus.vocabulary(), *texts, **settings)


def make_model(task, seed=0, **settings):
    settings = {"width": 8, "hidden": 4, **settings}
    return make_classifier(AttentiveConfig(len(task.vocabulary), **settings), seed).eval()
