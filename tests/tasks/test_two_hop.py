"""What matters at each depth of the hand-written transformer is what running it on every set of units says."""

from itertools import pairwise

import pytest
import torch

from brute_force import all_sets, minimal_sufficient, relevant_units
from diffmask.models.two_hop import TwoHopModel, adapt_two_hop
from diffmask.tasks.two_hop import ASK, DEPTHS, FILLERS, KEY, LONGEST, SYMBOLS, TOKENS, VALUE, TwoHop

depths = pytest.mark.parametrize("depth", range(DEPTHS))


@pytest.fixture
def task():
    return TwoHop(0, count=60, test_count=12)


@pytest.fixture
def model():
    return adapt_two_hop(TwoHopModel(SYMBOLS, FILLERS, LONGEST, seed=0))


@depths
def test_the_truth_is_what_trying_every_set_of_units_finds(task, model, depth):
    truth = task.truth(task.test, depth)
    baseline = torch.zeros(model.model.embedding.embedding_dim)
    for row, example in enumerate(task.test[:6]):
        units, keep, answers, far, same = all_sets(model, task, example, model.sites.names[depth], baseline)
        assert relevant_units(units, answers, tolerance=0.05) == set(truth.relevant[row].nonzero().flatten().tolist())
        assert minimal_sufficient(keep, same & (far <= 0.1)) == set(truth.sufficient[row])


def test_the_answer_is_found_in_two_hops(task, model):
    for example, said in zip(task.train, model(task.collate(task.train)).softmax(-1), strict=True):
        tokens = task.stories[example].tokens
        facts = {a - KEY: b - VALUE for a, b in pairwise(tokens) if KEY <= a < VALUE}
        assert said[facts[facts[tokens[-1] - ASK]]] > 0.99


@depths
def test_what_can_be_known_covers_what_matters(task, depth):
    known, right = task.knowable(task.test, depth), task.truth(task.test, depth).relevant
    assert not bool((right & ~known).any())
    assert torch.equal(known, right) == (depth > 1)


def test_before_the_first_hop_every_other_fact_could_have_been_the_second(task, model):
    """Two stories in which a unit's own state and the question are the same, and the unit matters in one only."""
    one, two = task.collate(task.test[:1]), task.collate(task.test[:1])
    story = task.stories[task.test[0]]
    tokens = two.inputs["tokens"].clone()
    other = next(place for place in story.values if place - 1 not in (story.first, story.second))
    tokens[0, 1 + story.first + 1] = VALUE + story.tokens[other - 1] - KEY  # the first fact now names the other one
    for batch, matters in ((one, False), (two.__class__({**two.inputs, "tokens": tokens}, two.valid), True)):
        inputs = dict(batch.inputs)
        changed = inputs["tokens"].clone()
        changed[0, 1 + other] = VALUE + (int(changed[0, 1 + other]) - VALUE + 1) % SYMBOLS
        answers = [int(model.model(**{**inputs, "tokens": t}).argmax()) for t in (inputs["tokens"], changed)]
        assert (answers[0] != answers[1]) == matters


def test_tokens_and_lengths_fit_the_model(task, model):
    batch = task.collate(range(60))
    assert model.model.embedding.num_embeddings == TOKENS
    assert batch.valid.shape[1] == LONGEST and len(set(batch.valid.sum(1).tolist())) > 3
    assert not bool(batch.valid[:, 0].any())


def test_a_seed_draws_its_own_stories_and_draws_them_again():
    assert TwoHop(0, 20, 5).stories == TwoHop(0, 20, 5).stories != TwoHop(1, 20, 5).stories
