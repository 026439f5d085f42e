"""What a comparison is known by: the same in every process, another for anything that makes another figure."""

import torch

from diffmask.attribution.bottleneck import Bottleneck
from diffmask.attribution.per_example import PerExample
from diffmask.evaluation.identity import describe, identity
from diffmask.evaluation.remove_to_zero import ToZero
from diffmask.evaluation.subject import about_model
from diffmask.evaluation.swap import Hindsight, SwapTest
from diffmask.models.adapting import adapt
from diffmask.settings import change
from diffmask.tasks.text import TextClassification
from tiny_text import make_model, make_tokenizer


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


def test_what_is_read_and_never_dropped_is_part_of_the_data():
    tokenizer = make_tokenizer()
    model = adapt(make_model("bert"), tokenizer)

    def known(question):
        task = TextClassification(tokenizer, [], [(question, "a funny movie .")], gate="second")
        how = {"removal": ToZero(), "truth": None, "rationale": None}
        return identity(about_model(model, task, 0, torch.zeros(16), **how), [range(1)])

    assert known("what ?") == known("what ?") != known("a ?")
