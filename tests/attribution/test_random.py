"""Random scores: of each example its own, whatever stands around it."""

import torch

from diffmask.attribution.method import Question
from diffmask.attribution.random import Random
from toys import evidence_model, evidence_task

TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny", "a fast movie ."]


def test_examples_of_one_length_get_different_scores(ask_text):
    first, other = Random()(ask_text([TEXTS[0], "a funny movie a"]))
    assert not torch.isclose(first, other).any()


def test_the_same_example_gets_the_same_scores_wherever_it_stands(ask_text):
    first, last = Random()(ask_text([TEXTS[0], TEXTS[2], TEXTS[0]]))[[0, 2]]
    assert torch.equal(first, last)


def test_units_of_another_kind_or_padding_on_the_left_do_not_matter(ask_text):
    right, left = (ask_text(TEXTS, kind="llama", padding_side=side) for side in ("right", "left"))
    assert torch.equal(Random(3)(right)[right.batch.valid], Random(3)(left)[left.batch.valid])


def test_they_are_uniform():
    task = evidence_task(4000)
    batch = task.collate(range(4000))
    scores = Random()(Question(evidence_model(), task, batch, 0, torch.zeros(4)))
    unique, where = batch.inputs["tokens"].mul(batch.valid).unique(dim=0, return_inverse=True)
    firsts = torch.tensor([int((where == number).nonzero()[0]) for number in range(0, len(unique), 4)])
    drawn = scores[firsts][batch.valid[firsts]]
    assert abs(float(drawn.mean()) - 0.5) < 0.02 and abs(float(drawn.var()) - 1 / 12) < 0.005


def test_examples_that_differ_in_an_input_without_positions_differ(ask_text):
    question = ask_text(TEXTS[:1])
    changed = Question(question.model, question.task, with_input(question.batch, torch.tensor([[3]])), 0, None)
    same = Question(question.model, question.task, with_input(question.batch, torch.tensor([[4]])), 0, None)
    assert not torch.equal(Random()(changed), Random()(same))


def with_input(batch, extra):
    return type(batch)({**batch.inputs, "extra": extra}, batch.valid, batch.place, batch.ask)
