"""Sets come from their numbers in the order in which itertools makes them."""

from itertools import combinations

import pytest
import torch

from diffmask.masking.sets import count_sets, in_order, sets_of_size, unpack


@pytest.mark.parametrize("units", [1, 5, 8])
def test_all_sets_of_a_size_come_in_the_order_of_itertools(units):
    for size in range(units + 1):
        expected = list(combinations(range(units), size))
        found = sets_of_size(units, size, 0, len(expected))
        assert [tuple(row.nonzero().flatten().tolist()) for row in found] == expected
        assert count_sets(units, size, size) == len(expected)


def test_any_stretch_of_sets_can_be_had():
    whole = sets_of_size(9, 4, 0, 126)
    assert torch.equal(torch.cat([sets_of_size(9, 4, 0, 50), sets_of_size(9, 4, 50, 76)]), whole)


def test_far_more_sets_than_memory_holds_can_be_counted_through():
    found = sets_of_size(60, 30, 10**17, 3)
    assert (found.sum(1) == 30).all() and len(found.unique(dim=0)) == 3
    assert torch.equal(found, in_order(found.flip(0)))


def test_sets_of_a_hundred_units_can_be_made_too():
    assert sets_of_size(100, 2, 4949, 1).nonzero()[:, 1].tolist() == [98, 99]


def test_a_set_comes_back_from_its_number():
    assert unpack(torch.tensor([0b101, 0b011]), 3).int().tolist() == [[1, 0, 1], [0, 1, 1]]
