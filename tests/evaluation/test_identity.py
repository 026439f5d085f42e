"""What a comparison is known by: the same in every process, another for anything that makes another figure."""

import torch

from diffmask.attribution.bottleneck import Bottleneck
from diffmask.attribution.per_example import PerExample
from diffmask.evaluation.identity import describe
from diffmask.evaluation.swap import Hindsight, SwapTest
from diffmask.settings import change


def query(batch):
    return [0] * len(batch)


def test_settings_are_known_with_the_groups_inside_of_them():
    assert describe(PerExample()) == describe(PerExample()) != describe(change(PerExample(), {"steps": 7}))


def test_a_function_is_known_by_its_name_and_not_by_where_it_lies():
    assert "condition=query)" in describe(Hindsight(SwapTest(condition=query)))
    assert "0x" not in describe(Hindsight(SwapTest(condition=query))) + describe(object())


def test_a_tensor_is_known_by_all_of_its_numbers():
    mean = torch.arange(2000.0)
    first, same, other = (Bottleneck(mean=mean + change, std=mean) for change in (0, 0, mean.eq(1000).float()))
    assert describe(first) == describe(same) != describe(other)
