"""The hand-written transformer moves one thing per layer, and keeps to what it was told."""

import torch

from diffmask.models.sites import capture, replace
from diffmask.models.two_hop import Layout, TwoHopModel, adapt_two_hop
from diffmask.types import Batch

SYMBOLS, OTHERS, LONGEST = 3, 1, 8
# start, "key 0 value 1", filler, "key 1 value 2", "what is 0"
TOKENS = torch.tensor([[0, 1, 5, 10, 2, 6, 7]])


def model(seed=0):
    return TwoHopModel(SYMBOLS, OTHERS, LONGEST, seed)


def batch(tokens=TOKENS, length=7):
    real = (torch.arange(tokens.shape[1]) < length).unsqueeze(0)
    return Batch({"tokens": tokens, "real": real, "asked": torch.tensor([length - 1])}, real)


def part(state, rotation, name):
    layout = Layout(SYMBOLS, OTHERS, LONGEST)
    return (state @ rotation.T)[..., layout.span(name)]


def test_each_layer_moves_one_thing():
    width = Layout(SYMBOLS, OTHERS, LONGEST).width
    rotation = torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(0))).Q
    adapter = adapt_two_hop(model())
    with torch.no_grad(), capture(adapter.sites) as states:
        answer = adapter(batch())
    one, two, three = (states[f"layer {number}"][0] for number in (1, 2, 3))
    symbols = torch.eye(SYMBOLS)
    assert torch.allclose(part(one, rotation, "owner")[[2, 5]], symbols[[0, 1]], atol=1e-3)
    assert torch.allclose(part(two, rotation, "found")[6], symbols[1], atol=1e-3)
    assert not part(one, rotation, "found")[6].abs().max() > 1e-3
    assert torch.allclose(part(three, rotation, "result")[6], symbols[2], atol=1e-3)
    assert int(answer.argmax()) == 2


def test_a_question_without_an_answer_rests_on_the_start_token():
    lost = torch.tensor([[0, 1, 5, 10, 3, 6, 7]])  # the fact of key 1 is gone
    assert torch.allclose(model()(**batch(lost).inputs), torch.zeros(1, SYMBOLS), atol=1e-2)


def test_padding_does_not_change_the_answer():
    longer = torch.cat([TOKENS, torch.tensor([[4]])], 1)
    assert torch.allclose(model()(**batch().inputs), model()(**batch(longer).inputs), atol=1e-5)


def test_every_seed_turns_the_states_and_answers_the_same():
    one, two = model(0), model(1)
    assert not torch.isclose(one.embedding.weight, two.embedding.weight).any()
    assert torch.allclose(one(**batch().inputs), two(**batch().inputs), atol=1e-3)


def test_a_state_replaced_by_itself_changes_nothing():
    adapter = adapt_two_hop(model())
    with torch.no_grad(), capture(adapter.sites) as states:
        answer = adapter(batch())
    for name in adapter.sites.names:
        with torch.no_grad(), replace(adapter.sites[name], states[name]):
            assert torch.equal(adapter(batch()), answer)
