"""States come in every packing, are passed in every way, and pass through a layer more than once."""

from collections import OrderedDict, namedtuple
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from diffmask.errors import SiteError
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.models.sites import Site, Sites, capture, replace, resume
from diffmask.types import Batch

Pair = namedtuple("Pair", ["hidden", "extra"])


class ModelOutput(OrderedDict):
    """As transformers' does: a mapping that is also read by position, and leaves out what is None."""

    def __init__(self, hidden=None, extra=None) -> None:
        super().__init__({k: v for k, v in {"hidden": hidden, "extra": extra}.items() if v is not None})

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


PACKINGS = {
    "tensor": lambda h: h,
    "tuple": lambda h: (h, "extra"),
    "list": lambda h: [h, "extra"],
    "namedtuple": lambda h: Pair(h, "extra"),
    "dict": lambda h: {"hidden": h, "extra": "extra"},
    "model output": lambda h: ModelOutput(h, "extra"),
}


def unpack(packed):
    """Take the state out of any packing, and insist that its companion is still there."""
    if isinstance(packed, torch.Tensor):
        return packed
    hidden, extra = packed.values() if isinstance(packed, dict) else packed
    assert extra == "extra"
    return hidden


class Layer(nn.Module):
    """One layer whose output comes in some packing; `mask` comes first, to make positions matter."""

    def __init__(self, pack=PACKINGS["tensor"]) -> None:
        super().__init__()
        self.linear, self.pack, self.runs = nn.Linear(4, 4), pack, 0

    def forward(self, mask, hidden):
        self.runs += 1
        return self.pack(torch.tanh(self.linear(hidden)) * mask)


class Packed(nn.Module):
    """Two layers whose outputs come in some packing."""

    def __init__(self, pack) -> None:
        super().__init__()
        self.first, self.second, self.kind = Layer(pack), Layer(pack), type(pack(torch.zeros(1)))

    def forward(self, x):
        for layer in (self.first, self.second):
            packed = layer(1.0, x)
            assert type(packed) is self.kind
            x = unpack(packed)
        return x.sum((1, 2))


class Calling(nn.Module):
    """Calls its layer in one of several ways."""

    def __init__(self, call) -> None:
        super().__init__()
        self.layer, self.call = Layer(), call

    def forward(self, x):
        return self.call(self.layer, 2 * x).sum((1, 2))


class Interleaved(nn.Module):
    """Two shared layers, each run three times, in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Layer(), Layer()

    def forward(self, x):
        for _ in range(3):
            x = self.two(1.0, self.one(1.0, x)) + x
        return x.sum((1, 2))


class InPlace(nn.Module):
    """Changes the output of a layer in place, as many vision models do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        state = self.embed(x)
        state += 1
        return self.head(state)


@pytest.fixture
def x():
    return torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def look(model: Adapter, batch: Batch):
    with torch.no_grad(), capture(model.sites) as states:
        output = model(batch)
    return states, output


def other(state: torch.Tensor) -> torch.Tensor:
    return state + 1 + torch.arange(state.numel()).reshape(state.shape) / state.numel()


def run(context, model, *args, **kwargs):
    with torch.no_grad(), context:
        return model(*args, **kwargs)


@pytest.mark.parametrize(
    ("packing", "item"), [*((p, 0) for p in PACKINGS), ("dict", "hidden"), ("model output", "hidden")]
)
def test_a_state_is_found_in_any_packing_and_its_companions_are_kept(packing, item, x):
    model = Packed(PACKINGS[packing])
    sites = Sites([Site("first", model.first, item=item), Site("second", model.second, item=item)])
    with torch.no_grad(), capture(sites) as states:
        output = model(x)
    for site in sites:
        state = states[site.name]
        assert state.shape == x.shape
        assert torch.equal(run(replace(site, state), model, x), output)
        replaced, resumed = (run(c, model, x) for c in (replace(site, state + 1), resume(site, state + 1, states)))
        assert torch.equal(replaced, resumed) and not torch.isclose(replaced, output).any()


def test_the_last_item_of_a_tuple_may_hold_the_state(x):
    model = nn.Sequential(Layer(lambda h: ("extra", h)))
    model.forward = lambda x: model[0](1.0, x)[1]
    site = Site("state", model[0], item=-1)
    assert torch.equal(run(replace(site, x), model, x), x)


CALLS = {
    "by position": lambda layer, x: layer(1.0, x),
    "by keyword": lambda layer, x: layer(mask=1.0, hidden=x),
    "by keyword in another order": lambda layer, x: layer(hidden=x, mask=1.0),
    "mixed": lambda layer, x: layer(1.0, hidden=x),
}


@pytest.mark.parametrize("item", [1, "hidden"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_input_is_found_however_it_is_passed(call, item, x):
    model = Calling(call)
    site = Site("layer:input", model.layer, "input", item)
    with torch.no_grad(), capture([site]) as states:
        output = model(x)
    assert torch.equal(states["layer:input"], 2 * x)
    assert torch.equal(run(replace(site, 2 * x), model, x), output)
    assert torch.equal(run(replace(site, 2 * (x + 1)), model, x), run(nullcontext(), model, x + 1))
    assert torch.equal(run(resume(site, 2 * (x + 1), states), model, x), run(nullcontext(), model, x + 1))


def test_a_site_without_a_tensor_says_what_is_there_and_how_to_choose(x):
    model = Packed(PACKINGS["tuple"])
    wanted = (
        r"site 'first' holds no tensor: the output of Layer has str at item 1; choose another with Site\(\.\.\., item"
    )
    with pytest.raises(SiteError, match=wanted), capture([Site("first", model.first, item=1)]):
        model(x)


@pytest.fixture
def shared(x) -> tuple[Adapter, Batch]:
    batch = Batch({"x": x}, torch.ones(2, 3, dtype=torch.bool))
    return adapt(Interleaved(), sites=["two", "one"], example=batch), batch


def test_shared_layers_have_one_site_per_call_in_the_order_they_run(shared):
    assert shared[0].sites.names == ("one@0", "two@0", "one@1", "two@1", "one@2", "two@2")


def test_each_call_of_a_shared_layer_has_its_own_state(shared, x):
    model, batch = shared
    states, _ = look(model, batch)
    for turn in range(3):
        one = model.model.one(1.0, x)
        two = model.model.two(1.0, one)
        assert torch.equal(states[f"one@{turn}"], one) and torch.equal(states[f"two@{turn}"], two)
        x = two + x


@pytest.mark.parametrize("place", range(6))
def test_replacing_and_resuming_agree_at_every_call_of_interleaved_layers(shared, place):
    model, batch = shared
    states, output = look(model, batch)
    site = model.sites[place]
    state = states[site.name]
    assert torch.equal(run(replace(site, state), model, batch), output)
    assert torch.equal(run(resume(site, state, states), model, batch), output)
    before = model.model.one.runs + model.model.two.runs
    resumed = run(resume(site, other(state), states), model, batch)
    assert model.model.one.runs + model.model.two.runs - before == 5 - place
    assert torch.equal(resumed, run(replace(site, other(state)), model, batch))
    assert not torch.isclose(resumed, output).any()


def test_the_input_of_a_later_call_is_found_by_name_when_resuming(x):
    model = Interleaved()
    earlier = Site("two@0", model.two, call=0, calls=3)
    sites = Sites([earlier, Site("two:input@1", model.two, "input", "hidden", call=1, calls=3)])
    with torch.no_grad(), capture(sites) as states:
        model(x)
    site, new = sites[1], other(states["two:input@1"])
    assert torch.equal(run(resume(site, new, states), model, x), run(replace(site, new), model, x))


def test_every_pass_of_a_shared_layer_within_one_block_is_resumed(shared):
    model, batch = shared
    states, _ = look(model, batch)
    with torch.no_grad(), resume(model.sites["one@1"], other(states["one@1"]), states):
        first, second = model(batch), model(batch)
    assert torch.equal(first, second)


@pytest.mark.parametrize("how", [replace, resume])
def test_a_model_that_works_in_place_changes_no_captured_state(how, x):
    model = InPlace()
    site = Site("embed", model.embed)
    with torch.no_grad(), capture([site]) as states:
        output = model(x)
    more = [states] if how is resume else []
    assert torch.equal(run(how(site, states["embed"], *more), model, x), output)
    assert torch.equal(run(how(site, states["embed"], *more), model, x), output)
