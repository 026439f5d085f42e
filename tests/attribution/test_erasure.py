"""Exact erasure where a unit has several positions, and where gates read what is asked."""

from itertools import combinations

import pytest
import torch

from diffmask.attribution.erasure import ExactErasure, repeat_example
from diffmask.objective.divergence import agreement, divergence
from diffmask.training.step import look
from diffmask.types import Batch

WRITTEN = ["a funny movie .", "enjoyable", "a enjoyable"]


def smallest_by_hand(question, row, margin):
    """Try every set of units of one example, one at a time."""
    seen = look(question.model, question.task, question.task.collate(WRITTEN[row : row + 1]))
    count = int(seen.batch.valid.sum())
    units = seen.batch.valid[0].nonzero().flatten().tolist()
    for size in range(1, count + 1):
        for chosen in combinations(units, size):
            keep = torch.zeros(seen.batch.valid.shape)
            keep[0, list(chosen)] = 1
            masked = seen.masked_at(question.site_name, keep, question.baseline)
            if divergence(seen.original, masked) <= margin and agreement(seen.original, masked) == 1:
                return size
    return count


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize(("kind", "unit"), [("bert", "word"), ("bert", "token"), ("llama", "word")])
def test_the_smallest_set_of_words_is_the_one_found_by_trying_each(ask_text, kind, unit, depth):
    texts = WRITTEN if kind == "bert" else WRITTEN[::2]
    question = ask_text(texts, depth, kind, unit=unit)
    found = ExactErasure(margin=0.2)(question)
    assert found.shape == question.batch.valid.shape and (found[~question.batch.valid] == 0).all()
    with torch.no_grad(), question.model.frozen():
        for row, text in enumerate(texts):
            assert int(found[row].sum()) == smallest_by_hand(question, WRITTEN.index(text), 0.2)


def test_one_example_many_times_over_takes_along_all_that_belongs_to_it():
    inputs = {"ids": torch.arange(6).view(2, 3), "table": torch.zeros(7), "flag": "yes"}
    valid, place = torch.tensor([[True, True], [True, False]]), torch.tensor([[0, 1, 1], [-1, 0, 0]])
    batch = repeat_example(Batch(inputs, valid, place, torch.tensor([2, 1])), 1, 3)
    assert batch.inputs["ids"].tolist() == [[3, 4, 5]] * 3 and batch.inputs["flag"] == "yes"
    assert batch.valid.tolist() == [[True, False]] * 3 and len(batch.inputs["table"]) == 7
    assert batch.place.tolist() == [[-1, 0, 0]] * 3 and batch.ask.tolist() == [1, 1, 1]


def test_one_example_of_tokens_has_no_places(ask_text):
    batch = repeat_example(ask_text(WRITTEN).batch, 0, 2)
    assert batch.place is None and batch.ask is None and len(batch) == 2
