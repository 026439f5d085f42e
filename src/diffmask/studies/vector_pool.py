"""Word vectors of all corpora of a study, trained together once and read by every job.

A corpus alone may be too small for its own: SST has a few thousand sentences. Test texts are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from ..storage import load_tensors, save_tensors
from ..tasks.documents import Corpus
from ..tasks.word_vectors import VectorConfig, train_vectors
from ..tasks.words import END, MASK, START, Vocabulary

KIND = "word vectors"


def make_pool(corpora: Sequence[Corpus], path: Path, width: int) -> Path:
    """Train the vectors of every word some corpus knows, unless the file has just these; return where they are."""
    about = {"width": width, "corpora": {corpus.name: [len(corpus.train), corpus.note] for corpus in corpora}}
    if path.is_file() and load_tensors(path, KIND)[1]["about"] == about:
        return path
    known = [" ".join(corpus.vocabulary().number) for corpus in corpora]
    vocabulary = Vocabulary(known, least=1, special=(START, END, MASK))
    texts = [document.text for corpus in corpora for document in corpus.train]
    vectors = train_vectors(texts, vocabulary, VectorConfig(width=width))
    save_tensors(path, KIND, {"vectors": vectors}, {"about": about, "words": list(vocabulary.number)})
    return path


def pooled_vectors(path: Path, vocabulary: Vocabulary) -> Float[Tensor, "word width"]:
    """Return the vectors of a corpus's vocabulary, whose special words are numbered as those of the pool."""
    vectors, place = _read(path)
    special = list(range(vocabulary.first_word))
    return vectors[torch.tensor(special + [place[word] for word in vocabulary.number])]


@cache
def _read(path: Path) -> tuple[Tensor, dict[str, int]]:
    tensors, info = load_tensors(path, KIND)
    first = len(tensors["vectors"]) - len(info["words"])
    return tensors["vectors"], {word: number for number, word in enumerate(info["words"], first)}
