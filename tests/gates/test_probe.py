"""Probes: what each reads, how votes combine, and where they start."""

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.gates.baseline import BaselineConfig
from diffmask.gates.hard_concrete import HardConcrete
from diffmask.gates.probe import HiddenProbe, InputProbe, Probe, ProbeConfig, make_probe
from diffmask.gates.votes import Votes

NAMES, WIDTHS = ("embed", "a", "b", "c"), (4, 4, 6, 6)
GATES = ("hard-concrete", "reinforce")


@pytest.fixture
def states() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = zip(NAMES, WIDTHS, strict=True)
    return {name: torch.randn(2, 5, width, generator=generator) for name, width in shapes}


def fresh(kind: str, **changes) -> Probe:
    torch.manual_seed(0)
    return make_probe(NAMES, WIDTHS, ProbeConfig(kind=kind, **changes))


def trained(kind: str, **changes) -> Probe:
    probe = fresh(kind, **changes)
    for voter in probe.voters:
        torch.nn.init.normal_(voter.last.weight, std=0.2)
    return probe


@pytest.mark.parametrize("gate", GATES)
def test_coupled_votes_on_the_input_multiply(states, gate):
    probe = trained("input", gate=gate, votes="coupled")
    each = []
    for k, name in enumerate(NAMES):
        read = torch.cat([states["embed"], states[name]], -1) if k else states["embed"]
        each.append(probe.gates[k].open(probe.voters[k](read)))
    for depth in range(4):
        product = torch.stack(each[: depth + 1]).prod(0)
        assert torch.allclose(probe(states, depth).keep_probability(), product, atol=1e-6)
        assert torch.allclose(probe.log_keep(states)[depth], product.log(), atol=1e-4)


def test_of_coupled_votes_fewer_units_are_kept_the_deeper_the_probe_may_look(states):
    log_keep = trained("input", votes="coupled").log_keep(states)
    assert bool((log_keep.diff(dim=0) <= 0).all()) and bool((log_keep.diff(dim=0) < 0).any())


@pytest.mark.parametrize("depth", range(4))
def test_an_input_probe_reads_nothing_above_its_depth(states, depth):
    probe = trained("input")
    before = probe(states, depth).logits
    for name in NAMES[depth + 1 :]:
        states[name] = states[name] + 1
    assert torch.equal(probe(states, depth).logits, before)
    states[NAMES[depth]] = states[NAMES[depth]] + 1
    assert not torch.isclose(probe(states, depth).logits[-1], before[-1]).any()


def test_the_first_voter_on_the_input_reads_it_once():
    assert fresh("input").voter(0).first.in_features == WIDTHS[0]


def test_every_depth_has_a_gate_of_its_own():
    probe = fresh("input", gate="reinforce")
    assert len({id(gate) for gate in probe.gates}) == probe.depth_count == 4
    assert sum(name.endswith("average") for name in probe.state_dict()) == 4


@pytest.mark.parametrize("depth", range(4))
def test_a_hidden_probe_reads_only_its_own_site(states, depth):
    probe = trained("hidden")
    before = probe(states, depth).logits
    others = {name: state + 1 for name, state in states.items() if name != NAMES[depth]}
    assert torch.equal(probe({**states, **others}, depth).logits, before)
    assert torch.equal(probe({NAMES[depth]: states[NAMES[depth]]}, depth).logits, before)
    own = {NAMES[depth]: states[NAMES[depth]] + 1}
    assert not torch.isclose(probe({**states, **own}, depth).logits, before).any()


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_asking_every_depth_at_once_is_asking_each(states, kind):
    probe = trained(kind)
    assert torch.equal(probe.log_keep(states), torch.stack([probe(states, d).log_keep() for d in range(4)]))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
def test_the_share_kept_at_first_is_the_one_asked_for(states, kind, share, gate):
    probe = fresh(kind, start_open=share, gate=gate)
    assert torch.allclose(probe(states, 3).keep_probability(), torch.full((2, 5), share), atol=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
def test_what_is_kept_at_first_is_drawn_that_often(states, share):
    probe = fresh("input", start_open=share)
    generator = torch.Generator().manual_seed(0)
    many = {name: state.repeat(1000, 1, 1) for name, state in states.items()}
    kept = probe(many, 3).sample(generator).prod(0) > 0
    assert float(kept.float().mean()) == pytest.approx(share, abs=0.02)


def test_a_hard_mask_keeps_what_is_more_likely_kept_than_not(states):
    votes = trained("input", start_open=0.5)(states, 3)
    assert torch.equal(votes.hard_keep(), votes.log_keep() > torch.tensor(0.5).log())
    assert bool(votes.hard_keep().any()) and not bool(votes.hard_keep().all())


def test_an_input_probe_masks_the_first_site_at_every_depth():
    probe = fresh("input")
    assert isinstance(probe, InputProbe) and {probe.site_name(d) for d in range(4)} == {"embed"}
    assert all(probe.baseline(d) is probe.baseline(0) for d in range(4)) and len(probe.baselines.vectors) == 1


def test_a_hidden_probe_masks_each_site_by_its_own_baseline():
    probe = fresh("hidden")
    assert isinstance(probe, HiddenProbe) and tuple(probe.site_name(d) for d in range(4)) == NAMES
    assert [len(probe.baseline(d)) for d in range(4)] == list(WIDTHS)
    assert len({id(probe.baseline(d)) for d in range(4)}) == 4


def test_a_hidden_probe_may_share_one_baseline_if_its_sites_are_of_one_width():
    config = ProbeConfig(kind="hidden", baseline=BaselineConfig(shared=True))
    probe = make_probe(("a", "b"), (3, 3), config)
    assert probe.baseline(0) is probe.baseline(1)
    with pytest.raises(SettingError, match="one width"):
        make_probe(("a", "b"), (3, 4), config)


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_each_voter_learns_what_is_usual_at_the_sites_it_reads(kind):
    probe = fresh(kind)
    means = [torch.full((width,), float(i)) for i, width in enumerate(WIDTHS)]
    probe.standardise(means, [torch.full((width,), 2.0 + i) for i, width in enumerate(WIDTHS)])
    for depth, voter in enumerate(probe.voters):
        reads = (0, depth) if kind == "input" and depth else (depth,)
        expected = torch.cat([means[i] for i in reads])
        assert torch.equal(voter.mean, expected) and torch.allclose(1 / voter.scale, expected + 2)


def test_half_precision_states_are_read(states):
    probe = trained("input")
    half = {name: state.bfloat16() for name, state in states.items()}
    assert torch.allclose(probe.log_keep(half), probe.log_keep(states), atol=0.5)


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5])
def test_a_share_at_first_outside_zero_and_one_is_refused(share):
    with pytest.raises(SettingError, match=rf"probe\.start_open must lie between 0 and 1, got {share}"):
        ProbeConfig(start_open=share)


@pytest.mark.parametrize(
    ("field", "choices"), [("kind", "input.*hidden"), ("gate", "hard-concrete.*reinforce"), ("voter", "standard.*publ")]
)
def test_a_choice_that_does_not_exist_is_refused(field, choices):
    config = ProbeConfig()
    object.__setattr__(config, field, "typo")  # past the type checker, which users do not run
    with pytest.raises(SettingError, match=rf"probe\.{field}: no choice named 'typo'. Known: {choices}"):
        config.__post_init__()


def test_units_that_are_almost_surely_kept_or_dropped_stay_apart_in_their_exact_probability():
    logits = torch.tensor([[[-140.0, -120.0, 0.0, 17.0, 20.0, 23.0]]]).expand(3, 1, 6)
    votes = Votes(logits, HardConcrete())
    exact, log_keep = votes.exact_keep_probability(), votes.log_keep()
    assert (log_keep.diff() > 0).all() and (exact.diff() > 0).all() and not (votes.keep_probability().diff() > 0).all()
    torch.testing.assert_close(exact.float(), votes.keep_probability())
