"""The tree gives the state of every set, as the layer itself does, and each set once."""

import pytest
import torch
from torch import nn

from diffmask.masking.prefix_tree import PrefixTree
from diffmask.masking.recurrence import read_recurrence
from diffmask.masking.sets import unpack
from recurrent_models import HIDDEN, LAYERS, WIDTH

STEPS = 6
PLACES = {
    "one step each": [0, 1, 2, 3, 4, 5],
    "some always kept": [-1, 0, 1, -1, 2, 3],
    "some of several steps": [0, 0, 1, 2, 2, 2],
    "taken up again": [1, 0, 1, -1, 0, 2],
}


def last_by_hand(layer, inputs):
    """Run the layer itself over one sequence, and return the last state of every layer."""
    if isinstance(layer, nn.RNNCellBase):
        part = None
        for step in inputs:
            part = layer(step.unsqueeze(0), part)
        return [part] if isinstance(part, tuple) else [(part,)]
    ends = layer(inputs.unsqueeze(0 if layer.batch_first else 1))[1]
    ends = ends if isinstance(ends, tuple) else (ends,)
    return [tuple(end[number] for end in ends) for number in range(len(ends[0]))]


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("name", LAYERS)
def test_every_set_ends_in_the_state_that_the_layer_gives(name, places):
    torch.manual_seed(0)
    layer = LAYERS[name]()
    kept, dropped = torch.randn(STEPS, WIDTH), torch.randn(STEPS, WIDTH)
    units = max(places) + 1
    tree = PrefixTree(read_recurrence(layer), kept, dropped, places, units)
    tree.most_nodes = 4
    seen = []
    with torch.no_grad():
        for codes, state in tree.leaves(0, units):
            assert len(codes) <= 4
            for row, chosen in enumerate(unpack(codes, units)):
                seen.append(tuple(chosen.tolist()))
                inputs = [kept[s] if place < 0 or chosen[place] else dropped[s] for s, place in enumerate(places)]
                for part, expected in zip(state, last_by_hand(layer, torch.stack(inputs)), strict=True):
                    for tensor, truth in zip(part, expected, strict=True):
                        torch.testing.assert_close(tensor[row], truth.flatten(), rtol=1e-4, atol=1e-5)
    assert len(seen) == len(set(seen)) == 2**units


@pytest.fixture
def tree():
    torch.manual_seed(0)
    recurrence = read_recurrence(nn.GRU(WIDTH, HIDDEN))
    return PrefixTree(recurrence, torch.randn(8, WIDTH), torch.randn(8, WIDTH), list(range(8)), 8)


@pytest.mark.parametrize("most_nodes", [2, 16, 1000])
@pytest.mark.parametrize(("least", "most"), [(0, 0), (3, 3), (8, 8), (2, 5), (0, 3), (6, 8)])
def test_a_walk_of_some_sizes_gives_each_set_of_those_sizes_once(tree, least, most, most_nodes):
    tree.most_nodes = most_nodes
    codes = torch.cat([codes for codes, _ in tree.leaves(least, most)])
    expected = [code for code in range(256) if least <= code.bit_count() <= most]
    assert sorted(codes.tolist()) == expected


def test_states_of_single_sets_are_those_of_the_tree(tree):
    codes, state = next(iter(tree.leaves(0, 8)))
    for found, expected in zip(tree.states(unpack(codes, 8))[0], state[0], strict=True):
        torch.testing.assert_close(found, expected)


class Counting:
    """Counts the cell steps that a walk takes."""

    def __init__(self, recurrence):
        self.inner, self.steps = recurrence, 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self, given, own, state):
        self.steps += len(state[0][0])
        return self.inner.step(given, own, state)


def test_the_whole_tree_costs_two_steps_a_set_and_size_by_size_four(tree):
    tree.recurrence = counting = Counting(tree.recurrence)
    list(tree.leaves(0, 8))
    assert counting.steps == 2**9 - 2
    counting.steps = 0
    for size in range(9):
        list(tree.leaves(size, size))
    assert counting.steps <= 2**10


@pytest.mark.parametrize(
    "layer", [nn.GRU(3, 4, bidirectional=True), nn.LSTM(3, 4, proj_size=2), nn.Linear(3, 4), nn.Embedding(3, 4)]
)
def test_what_reads_the_future_or_is_no_recurrence_has_no_tree(layer):
    assert read_recurrence(layer) is None
