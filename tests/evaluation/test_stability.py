"""Scores of several seeds, compared by hand."""

from dataclasses import dataclass, field
from statistics import mean, pstdev

import pytest
import torch

from diffmask.attribution.method import Method
from diffmask.attribution.per_example import PerExample
from diffmask.errors import SettingError
from diffmask.evaluation.ranking import spearman
from diffmask.evaluation.stability import SeedAgreement, SeedOverlap, SeedSpread, jaccard, stability
from diffmask.training.draws import unit_noise
from diffmask.training.free import FreeConfig


def test_spread_and_likeness_are_those_of_all_pairs():
    scores = torch.rand(3, 2, 4, generator=torch.Generator().manual_seed(0))
    valid = torch.tensor([[True] * 4, [True, True, True, False]])
    found = stability(scores, valid)
    for row, count in enumerate((4, 3)):
        rows = scores[:, row, :count]
        spreads = [pstdev(rows[:, unit].tolist()) for unit in range(count)]
        pairs = [(0, 1), (0, 2), (1, 2)]
        assert float(found.std[row]) == pytest.approx(mean(spreads))
        assert float(found.spearman[row]) == pytest.approx(mean(float(spearman(rows[a], rows[b])) for a, b in pairs))
        sets = [{unit for unit in range(count) if seed[unit] > 0.5} for seed in rows]
        overlaps = [len(sets[a] & sets[b]) / len(sets[a] | sets[b]) if sets[a] | sets[b] else 1 for a, b in pairs]
        assert float(found.jaccard[row]) == pytest.approx(mean(overlaps))


def test_two_empty_sets_are_alike_and_an_empty_and_a_full_one_are_not():
    empty, full = torch.zeros(1, 3, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)
    assert float(jaccard(empty, empty)) == 1 and float(jaccard(empty, full)) == 0


def test_a_method_without_a_seed_always_says_the_same(toys):
    case = toys.judge(toys.Oracle())
    assert (SeedSpread()(case) == 0).all() and (SeedAgreement()(case) == 1).all() and (SeedOverlap()(case) == 1).all()


def test_a_method_is_asked_with_the_seeds_after_its_own(toys):
    case = toys.judge(toys.Noise(seed=5))
    stack = torch.stack([toys.Noise(seed)(case.question) for seed in (5, 6, 7)])
    expected = stability(stack, case.question.batch.valid)
    torch.testing.assert_close(SeedSpread()(case), expected.std)
    torch.testing.assert_close(SeedAgreement()(case), expected.spearman, equal_nan=True)
    torch.testing.assert_close(SeedOverlap()(case), expected.jaccard)


@dataclass(frozen=True)
class Inner:
    seed: int = 3


@dataclass(frozen=True)
class Grouped(Method):
    search: Inner = field(default_factory=Inner)

    def __call__(self, question):
        return unit_noise(question.batch, seed=self.search.seed)[0]


def test_a_seed_inside_a_group_of_settings_is_found(toys):
    nested, flat = toys.judge(Grouped()), toys.judge(toys.Noise(seed=3))
    torch.testing.assert_close(SeedSpread()(nested), SeedSpread()(flat))
    searched = toys.judge(PerExample(search=FreeConfig(steps=5)), rows=range(4))
    assert (SeedSpread(seeds=2)(searched) > 0).any()


def test_one_seed_has_nothing_to_be_compared_with():
    with pytest.raises(SettingError, match="at least 2 seeds, got 1"):
        stability(torch.rand(1, 2, 3), torch.ones(2, 3, dtype=torch.bool))
