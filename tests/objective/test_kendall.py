"""Kendall's τ-b of a batch, against one pair of rankings at a time."""

import torch

from diffmask.objective import ranking
from diffmask.objective.ranking import kendall, kendall_rows


def draw(rows=7, units=6):
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randint(4, (2, rows, units), generator=generator).double()
    valid = torch.rand(rows, units, generator=generator) < 0.7
    valid[0] = False
    second[1] = 2.0
    first[2], second[3, ~valid[3]] = torch.nan, torch.nan  # of which only the first counts
    return first, second, valid


def test_a_batch_of_rankings_is_compared_row_by_row_over_its_valid_units():
    first, second, valid = draw()
    found = kendall_rows(first, second, valid)
    for row in range(len(valid)):
        expected = kendall(first[row][valid[row]], second[row][valid[row]])
        assert torch.equal(found[row].nan_to_num(9), expected.nan_to_num(9))
    assert found[:3].isnan().all() and not found[3].isnan()


def test_the_size_of_the_parts_does_not_matter(monkeypatch):
    expected = kendall_rows(*draw())
    monkeypatch.setattr(ranking, "PAIRS", 1)
    assert torch.equal(kendall_rows(*draw()).nan_to_num(9), expected.nan_to_num(9))
