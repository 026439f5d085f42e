"""Polishing leaves sets that hold, from which nothing can be dropped, and never a larger one than it was given."""

from itertools import combinations

import pytest
import torch

from diffmask.attribution.erasure import ExactErasure, search
from diffmask.objective.constraint import Constraint
from diffmask.training.polish import Polish, _moves
from diffmask.training.step import look
from recurrent_models import ask_reader

MARGIN = 0.2


@pytest.fixture
def question():
    return ask_reader(lengths=(7, 4, 6, 1, 7), padding=1)


def make_polish(question):
    seen = look(question.model, question.task, question.batch)
    return Polish(seen, question.site_name, question.baseline, Constraint(MARGIN))


def holds(question, keep):
    seen = look(question.model, question.task, question.batch)
    return Constraint(MARGIN).holds(seen.original, seen.masked_at(question.site_name, keep, question.baseline))


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("start", ["none", "all", "random"])
def test_a_polished_set_holds_and_no_unit_of_it_can_be_dropped(question, start, exchange):
    valid, scores = question.batch.valid, torch.rand(question.batch.valid.shape)
    keep = {"none": torch.zeros_like(valid), "all": valid, "random": scores > 0.5}[start]
    with torch.no_grad(), question.model.frozen():
        polished = make_polish(question)(keep, scores, exchange=exchange)
        assert holds(question, polished).all() and not (polished & ~valid).any() and polished.any(1).all()
        for unit in range(valid.shape[1]):
            without = polished.clone()
            without[:, unit] = False
            smaller = polished[:, unit] & without.any(1)
            assert not holds(question, without)[smaller].any()


def test_an_exchange_finds_sets_that_dropping_alone_does_not(question):
    everything = question.batch.valid
    with torch.no_grad(), question.model.frozen():
        polish = make_polish(question)
        dropped = polish(everything, everything.float(), exchange=False)
        exchanged = polish(everything, everything.float())
    smallest = torch.tensor([found.size for found in search(question, ExactErasure(MARGIN))])
    assert (smallest <= exchanged.sum(1)).all() and (exchanged.sum(1) <= dropped.sum(1)).all()


def test_the_moves_of_an_exchange_are_all_with_two_less_and_one_other_more():
    keep, valid = torch.tensor([1, 0, 1, 1, 0, 0]).bool(), torch.tensor([1, 1, 1, 1, 1, 0]).bool()
    found = {tuple(move.nonzero().flatten().tolist()) for move in _moves(keep, valid)}
    expected = {
        tuple(sorted({0, 2, 3} - set(pair) | {other})) for pair in combinations([0, 2, 3], 2) for other in (1, 4)
    }
    assert found == expected and len(_moves(valid, valid)) == 0


def test_of_several_sets_the_smallest_that_holds_is_taken(question):
    valid = question.batch.valid
    none, best = torch.zeros_like(valid), torch.stack([f.sets[0] for f in search(question, ExactErasure(MARGIN))])
    with torch.no_grad(), question.model.frozen():
        polish = make_polish(question)
        empty_fails = polish.distance(torch.arange(len(none)), none).isinf()
        chosen = polish.smallest([none, valid, best], [none, valid, best])
    assert empty_fails.any() and torch.equal(chosen[empty_fails], best[empty_fails])
