"""States are read and replaced inside an unmodified model, and nothing of it stays behind."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from diffmask.errors import SiteError
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.models.sites import Site, Sites, capture, replace, resume
from diffmask.types import Batch

SITES = ["embed", "blocks.0:input", "blocks.0", "blocks.1", "blocks.2"]
LEFT = {"embed": 0, "blocks.0:input": 0, "blocks.0": 1, "blocks.1": 2, "blocks.2": 3}  # blocks up to and with a site


class Fragile(nn.Module):
    """Raises in the middle of its forward pass when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head, self.broken = nn.Linear(4, 4), nn.Linear(4, 4), False

    def forward(self, x):
        state = self.embed(x)
        if self.broken:
            raise RuntimeError("out of luck")
        return self.head(state)


def traces(model: nn.Module) -> list:
    """List every hook and every replaced forward in a model."""
    hooks = [
        (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks, m._backward_pre_hooks) for m in model.modules()
    ]
    return [h for four in hooks for h in four if h] + [m for m in model.modules() if "forward" in vars(m)]


def look(model: Adapter, batch: Batch):
    with torch.no_grad(), capture(model.sites) as states:
        output = model(batch)
    return states, output


def other(state: torch.Tensor) -> torch.Tensor:
    return state + 1 + torch.arange(state.numel()).reshape(state.shape) / state.numel()


def run(context, model, *args, **kwargs):
    with torch.no_grad(), context:
        return model(*args, **kwargs)


def test_captured_states_are_those_a_forward_pass_by_hand_computes(adapter, tower, batch):
    states, output = look(adapter, batch)
    state = tower.embed(batch.inputs["tokens"])
    assert torch.equal(states["embed"], state) and torch.equal(states["blocks.0:input"], state)
    for i, block in enumerate(tower.blocks):
        state = block(state)
        assert torch.equal(states[f"blocks.{i}"], state)
    assert torch.equal(output, tower(**batch.inputs))


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("how", ["replace", "resume"])
def test_replacing_a_state_by_itself_changes_nothing(adapter, batch, name, how):
    states, output = look(adapter, batch)
    site, more = adapter.sites[name], [states] if how == "resume" else []
    again = run((resume if more else replace)(site, states[name], *more), adapter, batch)
    assert torch.equal(again, output)


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("how", ["replace", "resume"])
def test_replacing_a_state_by_something_else_changes_the_output(adapter, batch, name, how):
    states, output = look(adapter, batch)
    site, more = adapter.sites[name], [states] if how == "resume" else []
    again = run((resume if more else replace)(site, other(states[name]), *more), adapter, batch)
    assert not torch.isclose(again, output).any()


@pytest.mark.parametrize("name", SITES)
def test_replacing_a_state_gives_what_the_layers_after_it_make_of_it(adapter, tower, batch, name):
    new = other(look(adapter, batch)[0][name])
    expected = new
    for block in tower.blocks[LEFT[name] :]:
        expected = block(expected)
    assert torch.equal(run(replace(adapter.sites[name], new), adapter, batch), tower.head(expected.mean(1)))


@pytest.mark.parametrize("name", SITES)
def test_resuming_gives_exactly_what_replacing_gives(adapter, batch, name):
    states, _ = look(adapter, batch)
    site, new = adapter.sites[name], other(states[name])
    assert torch.equal(run(resume(site, new, states), adapter, batch), run(replace(site, new), adapter, batch))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("embed", [1, 1, 1]), ("blocks.0:input", [1, 1, 1]), ("blocks.0", [0, 1, 1]), ("blocks.2", [0, 0, 0])],
)
def test_resuming_runs_only_what_comes_after_the_site(adapter, tower, batch, name, expected):
    states, _ = look(adapter, batch)
    before = [block.runs for block in tower.blocks]
    run(resume(adapter.sites[name], states[name], states), adapter, batch)
    assert [block.runs - runs for block, runs in zip(tower.blocks, before, strict=True)] == expected


@pytest.mark.parametrize("how", [replace, resume])
def test_a_gradient_reaches_the_state_that_was_put_in(adapter, batch, how):
    states, _ = look(adapter, batch)
    new = states["blocks.1"].clone().requires_grad_(True)
    with how(adapter.sites["blocks.1"], new, *([states] if how is resume else [])):
        adapter(batch)[:, 0].sum().backward()
    assert new.grad is not None and bool((new.grad != 0).any())


def test_a_state_of_another_precision_is_cast_to_the_models(adapter, batch):
    states, output = look(adapter, batch)
    assert torch.equal(run(replace(adapter.sites["blocks.0"], states["blocks.0"].double()), adapter, batch), output)


def test_every_pass_within_one_block_is_replaced(adapter, batch):
    states, _ = look(adapter, batch)
    with torch.no_grad(), replace(adapter.sites["blocks.0"], other(states["blocks.0"])):
        first, second = adapter(batch), adapter(batch)
    assert torch.equal(first, second) and not torch.isclose(first, adapter(batch)).any()


def test_capturing_several_passes_keeps_the_last(adapter, batch):
    with torch.no_grad(), capture(adapter.sites) as states:
        for tokens in (batch.inputs["tokens"].flip(1), batch.inputs["tokens"]):
            adapter.model(tokens)
    assert torch.equal(states["embed"], adapter.model.embed(batch.inputs["tokens"]))


def test_capturing_inside_a_replacement_sees_what_it_leads_to(adapter, tower, batch):
    states, _ = look(adapter, batch)
    new = other(states["blocks.0"])
    with torch.no_grad(), replace(adapter.sites["blocks.0"], new), capture(adapter.sites) as seen:
        adapter(batch)
    assert torch.equal(seen["embed"], states["embed"])
    assert torch.equal(seen["blocks.0"], new) and torch.equal(seen["blocks.1"], tower.blocks[1](new))


def test_two_replacements_hold_at_once(adapter, tower, batch):
    states, _ = look(adapter, batch)
    new = other(states["blocks.2"])
    with replace(adapter.sites["embed"], other(states["embed"])), capture(adapter.sites) as seen:
        output = run(replace(adapter.sites["blocks.2"], new), adapter, batch)
    assert torch.equal(seen["embed"], other(states["embed"]))
    assert torch.equal(output, tower.head(new.mean(1)))


def test_of_two_replacements_at_one_site_the_inner_one_holds(adapter, batch):
    state = look(adapter, batch)[0]["blocks.1"]
    site = adapter.sites["blocks.1"]
    alone = run(replace(site, state + 1), adapter, batch)
    with replace(site, state + 2):
        assert torch.equal(run(replace(site, state + 1), adapter, batch), alone)


def test_a_resumption_inside_a_resumption_holds_until_it_ends(adapter, tower, batch):
    states, output = look(adapter, batch)
    outer, inner = other(states["embed"]), other(states["blocks.1"])
    with torch.no_grad(), resume(adapter.sites["embed"], outer, states):
        within = run(resume(adapter.sites["blocks.1"], inner, states), adapter, batch)
        after = adapter(batch)
    assert torch.equal(within, tower.head(tower.blocks[2](inner).mean(1)))
    assert torch.equal(after, run(replace(adapter.sites["embed"], outer), adapter, batch))
    assert not traces(tower) and torch.equal(run(nullcontext(), adapter, batch), output)


def contexts(model: Adapter, states):
    site = model.sites[0]
    return {
        "capture": lambda: capture(model.sites),
        "replace": lambda: replace(site, states[site.name]),
        "resume": lambda: resume(site, states[site.name], states),
    }


@pytest.mark.parametrize("how", ["capture", "replace", "resume"])
def test_nothing_is_left_behind(adapter, batch, how):
    make = contexts(adapter, look(adapter, batch)[0])[how]
    with make():
        assert traces(adapter.model)
        adapter(batch)
    assert not traces(adapter.model)


@pytest.mark.parametrize("how", ["capture", "replace", "resume"])
def test_nothing_is_left_behind_when_the_model_raises(how):
    fragile = Fragile()
    model = adapt(fragile, sites=["embed", "head:input"])
    batch = Batch({"x": torch.randn(2, 3, 4)}, torch.ones(2, 3, dtype=torch.bool))
    make = contexts(model, look(model, batch)[0])[how]
    fragile.broken = True
    with pytest.raises(RuntimeError, match="out of luck"), make():
        model(batch)
    assert not traces(fragile)


def test_hooks_and_forwards_of_other_people_stay(adapter, tower, batch):
    states, _ = look(adapter, batch)
    calls, plain = [], tower.blocks[0].forward
    tower.blocks[0].register_forward_hook(lambda *_: calls.append("hook"))
    tower.blocks[0].forward = own = lambda state: calls.append("forward") or plain(state)
    for make in contexts(adapter, states).values():
        run(make(), adapter, batch)
    run(resume(adapter.sites["blocks.1"], states["blocks.1"], states), adapter, batch)
    assert tower.blocks[0].forward is own and len(tower.blocks[0]._forward_hooks) == 1
    calls.clear()
    run(nullcontext(), adapter, batch)
    assert calls == ["forward", "hook"]


@pytest.mark.parametrize("training", [True, False])
def test_mode_gradients_and_weights_of_the_model_stay_as_they_were(adapter, tower, batch, training):
    tower.train(training).blocks[1].train(not training)
    tower.head.bias.requires_grad_(False)
    tower.head.weight.grad = torch.ones_like(tower.head.weight)
    weights = {name: w.clone() for name, w in tower.state_dict().items()}
    before = [(m.training) for m in tower.modules()], [(p.requires_grad, p.grad) for p in tower.parameters()]
    for make in contexts(adapter, look(adapter, batch)[0]).values():
        run(make(), adapter, batch)
    after = [(m.training) for m in tower.modules()], [(p.requires_grad, p.grad) for p in tower.parameters()]
    assert before[0] == after[0] and all(a == b and c is d for (a, c), (b, d) in zip(before[1], after[1], strict=True))
    assert all(torch.equal(weights[name], w) for name, w in tower.state_dict().items())


def test_a_replacement_that_was_never_reached_raises(adapter, batch):
    state = look(adapter, batch)[0]["embed"]
    wanted = "site 'embed' was not reached, so nothing was replaced there: run the model inside the block"
    with pytest.raises(SiteError, match=wanted), replace(adapter.sites["embed"], state):
        pass


def test_a_resumption_that_was_never_reached_raises(adapter, batch):
    states, _ = look(adapter, batch)
    resumption = resume(adapter.sites["embed"], states["embed"], states)
    with pytest.raises(SiteError, match="site 'embed' was not reached"), resumption:
        pass
    assert not traces(adapter.model)


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("how", ["replace", "resume"])
def test_a_state_of_another_shape_is_refused_with_both_shapes(adapter, batch, name, how):
    states, _ = look(adapter, batch)
    wanted = rf"site '{name}' holds a state of shape \(2, 5, 4\), got \(1, 5, 4\)"
    site, state = adapter.sites[name], states[name][:1]
    with pytest.raises(SiteError, match=wanted):
        run(replace(site, state) if how == "replace" else resume(site, state, states), adapter, batch)
    assert not traces(adapter.model)


def test_a_site_that_does_not_exist_gets_the_nearest_name(adapter):
    with pytest.raises(SiteError) as caught:
        adapter.sites["block.1"]
    wanted = (
        "no site named 'block.1'; did you mean 'blocks.1'? Known: embed, blocks.0:input, blocks.0, blocks.1, blocks.2"
    )
    assert str(caught.value) == wanted


def test_a_state_asked_for_before_the_model_ran_says_so(adapter):
    with capture(adapter.sites) as states:
        with pytest.raises(SiteError, match="site 'embed' was not reached: run the model inside"):
            states["embed"]
        with pytest.raises(SiteError, match="no captured site named 'embd'; did you mean 'embed'"):
            states["embd"]


def test_resuming_needs_states_that_were_captured(adapter, batch):
    with torch.no_grad(), capture(adapter.sites[:1]) as states:
        adapter(batch)
    with pytest.raises(SiteError, match=r"no captured site named 'blocks\.0'"):
        run(resume(adapter.sites["blocks.0"], states["embed"], states), adapter, batch)
    assert not traces(adapter.model)


def test_two_sites_may_not_share_a_name_and_there_must_be_one(tower):
    with pytest.raises(SiteError, match="two sites share a name; give each its own: a, a"):
        Sites([Site("a", tower.embed), Site("a", tower.head)])
    with pytest.raises(SiteError, match="at least one site"):
        Sites([])


def test_resuming_is_right_when_sites_are_listed_out_of_order(tower, batch):
    model = adapt(tower, sites=["blocks.2", "blocks.0"])
    states, _ = look(model, batch)
    site, new = model.sites["blocks.0"], other(states["blocks.0"])
    assert torch.equal(run(resume(site, new, states), model, batch), run(replace(site, new), model, batch))


class Nested(nn.Module):
    """Runs one shared layer several times inside each of its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.outer = nn.Sequential(self.shared, nn.Tanh(), self.shared)

    def forward(self, x):
        return self.outer(x)


def test_a_repeated_module_inside_another_site_is_refused():
    model = Nested()
    batch = Batch({"x": torch.randn(2, 3, 4)}, torch.ones(2, 3, dtype=torch.bool))
    assert adapt(model, sites=["shared"], example=batch).sites.names == ("shared@0", "shared@1")
    with pytest.raises(SiteError, match="site 'shared@0' runs several times inside site 'outer': leave one out"):
        adapt(model, sites=["shared", "outer"], example=batch)
