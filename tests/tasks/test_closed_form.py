"""What the formulas say matters is what running the model on every set of units says."""

import math

import pytest
import torch

from brute_force import all_sets, minimal_sufficient, relevant_units
from diffmask.errors import UnknownNameError
from diffmask.models.closed_form import RULES, ClosedForm, adapt_closed_form
from diffmask.objective.divergence import kl
from diffmask.tasks.closed_form import DISTRACTOR_TOKENS, FORMULAS, ClosedFormTask, bernoulli_kl
from diffmask.tasks.truth import minimal_sets
from diffmask.types import Bernoulli

MARGIN = 0.02
formulas = pytest.mark.parametrize("name", FORMULAS)


def setting(name, seed=0):
    task = ClosedFormTask(name, seed, count=400, test_count=24)
    return task, adapt_closed_form(ClosedForm(name, task.amounts, seed))


@formulas
@pytest.mark.parametrize("site", ["embedding", "amounts"])
def test_the_truth_is_what_trying_every_set_of_units_finds(name, site):
    task, model = setting(name)
    truth = task.truth(task.test, MARGIN)
    baseline = torch.zeros(16 if site == "embedding" else 2)
    for row, example in enumerate(task.test):
        units, keep, answers, far, same = all_sets(model, task, example, site, baseline)
        assert relevant_units(units, answers) == set(truth.relevant[row].nonzero().flatten().tolist())
        assert minimal_sufficient(keep, same & (far <= MARGIN)) == set(truth.sufficient[row])


@formulas
def test_the_model_answers_as_the_formula_says(name):
    task, model = setting(name, seed=1)
    batch = task.collate(task.test)
    answers = model(batch).detach()
    for row, example in enumerate(task.test):
        counting = [t - DISTRACTOR_TOKENS for t in task.rows[example] if t >= DISTRACTOR_TOKENS]
        said = task.formula.logit([task.formula.amounts[token] for token in counting])
        assert float(answers[row]) == pytest.approx(said, abs=1e-3)


def kinds_of(task, truth, row):
    tokens = task.rows[task.test[row]]
    return sorted(tokens[unit] - DISTRACTOR_TOKENS for unit in truth.relevant[row].nonzero().flatten().tolist())


def test_of_two_copies_both_matter_and_each_is_enough():
    task, _ = setting("copies")
    truth = task.truth(task.test, MARGIN)
    for row, sets in enumerate(truth.sufficient):
        assert kinds_of(task, truth, row) in ([0, 1], [2, 3])
        assert sorted(map(len, sets)) == [1, 1]


def test_units_that_cancel_matter_though_the_weak_one_is_enough():
    task, _ = setting("cancellation")
    truth = task.truth(task.test, MARGIN)
    rows = [row for row in range(len(task.test)) if {2, 3} <= set(kinds_of(task, truth, row))]
    assert rows
    for row in rows:
        (weak,) = (unit for unit in truth.relevant[row].nonzero().flatten().tolist() if is_weak(task, row, unit))
        assert frozenset({weak}) in truth.sufficient[row]


def is_weak(task, row, unit):
    return task.rows[task.test[row]][unit] - DISTRACTOR_TOKENS < 2


def test_an_example_that_nothing_could_change_has_no_truth():
    task, _ = setting("and")
    truth = task.truth(task.test, MARGIN)
    alone = [row for row in range(len(task.test)) if not truth.relevant[row].any()]
    assert alone and all(truth.sufficient[row] == [frozenset()] for row in alone)


@formulas
def test_examples_differ_in_length_and_hold_distractors_and_both_answers(name):
    task, model = setting(name)
    batch = task.collate(task.test)
    assert len(set(batch.valid.sum(1).tolist())) > 2
    assert bool(((batch.inputs["tokens"] < DISTRACTOR_TOKENS) & batch.valid).any(1).all())
    assert set((model(batch) > 0).tolist()) == {True, False}


@formulas
def test_a_seed_draws_its_own_examples_and_draws_them_again(name):
    first, again, other = ClosedFormTask(name, 0, 50, 10), ClosedFormTask(name, 0, 50, 10), ClosedFormTask(name, 1, 50)
    assert first.rows == again.rows != other.rows
    assert not set(first.train) & set(first.validation) and not set(first.validation) & set(first.test)


def test_formulas_and_rules_have_the_same_names():
    assert list(FORMULAS) == list(RULES)


def test_an_unknown_name_is_named_with_its_neighbour():
    with pytest.raises(UnknownNameError, match="no formula named 'xorr'; did you mean 'xor'"):
        ClosedFormTask("xorr", 0)
    with pytest.raises(UnknownNameError, match="no rule named 'nad'"):
        ClosedForm("nad", torch.zeros(3, 2), 0)


def test_the_kl_of_two_logits_is_the_librarys():
    logits = torch.tensor([1.5, -0.5])
    one, two = (Bernoulli(logit.reshape(1)).log_probs() for logit in logits)
    assert bernoulli_kl(1.5, -0.5) == pytest.approx(float(kl(one, two)), abs=1e-6)
    assert math.isclose(bernoulli_kl(2.0, 2.0), 0, abs_tol=1e-12)


def test_minimal_sets_hold_without_being_monotone():
    odd = minimal_sets([1, 2, 3], lambda kept: len(kept) % 2 == 1)
    assert odd == [frozenset({1}), frozenset({2}), frozenset({3})]
    assert minimal_sets([1, 2], lambda kept: True) == [frozenset()]
    assert minimal_sets([1, 2], lambda kept: False) == []
