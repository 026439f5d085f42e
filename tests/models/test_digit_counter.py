"""What the digit counter can know where is fixed by its shape."""

import pytest
import torch

from diffmask.models.digit_counter import DigitCounter, adapt_digit_counter
from diffmask.models.sites import capture, replace
from diffmask.types import Batch


@pytest.fixture
def counter() -> DigitCounter:
    torch.manual_seed(0)
    return DigitCounter(hidden=8)


def digits_batch(digits, query=((1, 2), (3, 4)), length=(4, 2)) -> Batch:
    digits, length = torch.tensor(digits), torch.tensor(length)
    valid = torch.arange(digits.shape[1]) < length.unsqueeze(1)
    return Batch({"query": torch.tensor(query), "digits": digits, "length": length}, valid)


PLAIN = [[1, 2, 3, 1], [3, 3, 0, 0]]


def test_the_answer_is_one_logit_per_example(counter):
    assert counter(**digits_batch(PLAIN).inputs).shape == (2,)


def test_the_answer_matches_a_slow_loop(counter):
    batch = digits_batch(PLAIN)
    for i, answer in enumerate(counter(**batch.inputs)):
        asked = torch.cat([counter.query_embedding(batch.inputs["query"][i, j]) for j in (0, 1)])
        state = torch.zeros(1, 1, 8)
        for digit in batch.inputs["digits"][i, : batch.inputs["length"][i]]:
            filtered = counter.filter(torch.cat([asked, counter.digit_embedding(digit)]))
            _, state = counter.counter(filtered.reshape(1, 1, 2), state)
        assert torch.allclose(counter.answer(state.flatten())[0], answer, atol=1e-6)


def test_padding_does_not_change_the_answer(counter):
    changed = [PLAIN[0], [3, 3, 9, 7]]
    assert torch.equal(counter(**digits_batch(PLAIN).inputs), counter(**digits_batch(changed).inputs))
    longer = [[*row, 5] for row in PLAIN]
    assert torch.allclose(counter(**digits_batch(PLAIN).inputs), counter(**digits_batch(longer).inputs), atol=1e-6)


def test_sites_stand_before_and_after_the_model_has_met_the_query(counter):
    model = adapt_digit_counter(counter)
    assert model.sites.names == ("digit embedding", "filtered state")
    states = []
    for query in ([[1, 2], [3, 4]], [[5, 2], [6, 4]]):
        with torch.no_grad(), capture(model.sites) as seen:
            model(digits_batch(PLAIN, query))
        states.append(seen)
    one, two = states
    assert torch.equal(one["digit embedding"], two["digit embedding"]) and one["digit embedding"].shape == (2, 4, 8)
    assert not torch.isclose(one["filtered state"], two["filtered state"]).any()
    assert one["filtered state"].shape == (2, 4, 2)


@pytest.mark.parametrize("name", ["digit embedding", "filtered state"])
def test_replacing_a_state_by_itself_changes_nothing_and_by_another_does(counter, name):
    model, batch = adapt_digit_counter(counter), digits_batch(PLAIN)
    with torch.no_grad(), capture(model.sites) as states:
        output = model(batch)
    with torch.no_grad(), replace(model.sites[name], states[name]):
        assert torch.equal(model(batch), output)
    with torch.no_grad(), replace(model.sites[name], states[name] + 1):
        assert not torch.isclose(model(batch), output).any()
