"""Documents as batches, splits and corpora."""

import pytest
import torch

from diffmask.errors import DataError
from diffmask.tasks.documents import Corpus, Document, DocumentTask, check_classes, documents_within, split_documents
from diffmask.tasks.words import Vocabulary
from diffmask.types import Bernoulli, Categorical

DOCUMENTS = tuple(Document(f"word{row} " * (1 + row % 4), row % 2) for row in range(40))
CORPUS = Corpus("toy", DOCUMENTS, DOCUMENTS[:4], DOCUMENTS[4:8], ("no", "yes"))
TASK = DocumentTask(CORPUS.vocabulary(), [], [])


class Answer:
    def __init__(self, labels):
        self.logits = torch.zeros(2, labels)


@pytest.mark.parametrize("side", ["right", "left"])
def test_words_are_units_and_start_and_end_are_read_but_none(side):
    task = DocumentTask(TASK.vocabulary, [], [], side=side)
    batch = task.collate(["word1 word2", "word3"])
    rows = [[word for word in row if word] for row in batch.inputs["input_ids"].tolist()]
    number = TASK.vocabulary.number
    assert rows == [[2, number["word1"], number["word2"], 3], [2, number["word3"], 3]]
    assert torch.equal(batch.inputs["attention_mask"].bool(), batch.inputs["input_ids"] > 0)
    assert batch.valid.sum(1).tolist() == [2, 1]
    assert bool(batch.inputs["attention_mask"][1, 0]) == (side == "right")


def test_a_vocabulary_without_ends_makes_every_position_a_unit():
    batch = DocumentTask(Vocabulary(["a b"], 1), [], []).collate(["a b", "a"])
    assert batch.valid.tolist() == [[True, True], [True, False]]


def test_long_documents_are_cut_and_named_accordingly():
    task = DocumentTask(TASK.vocabulary, [], [], longest=2)
    assert task.collate(["a b c"]).valid.sum() == 2 and task.units(["a b c"]) == [["a", "b"]]


def test_an_empty_document_is_refused_and_one_of_one_word_is_not():
    with pytest.raises(DataError, match="example 1 of this batch has no units"):
        TASK.collate(["word1", "  "])
    assert TASK.collate(["unseen"]).valid.sum() == 1


def test_a_batch_of_no_documents_is_refused():
    with pytest.raises(DataError, match="no documents to make a batch of"):
        TASK.collate([])


def test_what_is_no_text_is_refused(outside):
    code = """
from diffmask.tasks.documents import DocumentTask
from diffmask.tasks.words import Vocabulary
DocumentTask(Vocabulary(["a"]), [], []).collate([["a", "b"]])"""
    assert "a document is a string of words between spaces, got list: ['a', 'b']" in outside(code)


def test_one_logit_is_yes_or_no_and_several_are_classes():
    batch = TASK.collate(["word1", "word2"])
    assert isinstance(TASK.read(Answer(1), batch)["label"], Bernoulli)
    assert TASK.read(Answer(1), batch)["label"].raw.shape == (2,)
    assert isinstance(TASK.read(Answer(3), batch)["label"], Categorical)


def test_a_split_holds_the_share_out_of_each_class_and_repeats_itself():
    rest, held = split_documents(DOCUMENTS, 0.25, 7)
    assert sorted([*rest, *held], key=DOCUMENTS.index) == list(DOCUMENTS)
    assert [sum(d.label == label for d in held) for label in (0, 1)] == [5, 5]
    assert split_documents(DOCUMENTS, 0.25, 7) == (rest, held) != split_documents(DOCUMENTS, 0.25, 8)


def test_lengths_are_bounded_on_both_sides_and_included():
    assert {document.length for document in documents_within(DOCUMENTS, 2, 3)} == {2, 3}
    assert {document.length for document in CORPUS.within(4).train} == {4}


def test_a_corpus_knows_only_its_training_words():
    assert CORPUS.vocabulary().mask_token_id == 4 and len(CORPUS.vocabulary()) == 45
    other = Corpus("toy", DOCUMENTS[:2], DOCUMENTS, DOCUMENTS, ("no", "yes"))
    assert len(other.vocabulary()) == 7


def test_one_class_or_none_is_refused():
    with pytest.raises(DataError, match=r"the dev documents have only label 0 \(20 documents\)"):
        check_classes([d for d in DOCUMENTS if d.label == 0], "dev")
    with pytest.raises(DataError, match="the test documents have nothing"):
        check_classes([], "test")
