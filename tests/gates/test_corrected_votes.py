"""Corrected votes: a depth starts from what the depths below say, changes it, and never changes them."""

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.gates.probe import ProbeConfig, make_probe

NAMES, WIDTHS = ("embed", "a", "b", "c"), (4, 4, 6, 6)


@pytest.fixture
def states():
    generator = torch.Generator().manual_seed(0)
    shapes = zip(NAMES, WIDTHS, strict=True)
    return {name: torch.randn(2, 5, width, generator=generator) for name, width in shapes}


def make(trained=range(4), scale=0.2, **changes):
    torch.manual_seed(0)
    probe = make_probe(NAMES, WIDTHS, ProbeConfig(**changes))
    for depth in trained:
        torch.nn.init.normal_(probe.voter(depth).last.weight, std=scale)
    return probe


def said(probe, states, depth):
    """Ask one voter by hand."""
    read = torch.cat([states["embed"], states[NAMES[depth]]], -1) if depth else states["embed"]
    return probe.voter(depth)(read)


def test_a_vote_is_the_sum_of_what_was_said_up_to_its_depth(states):
    probe = make()
    for depth in range(4):
        total = sum(said(probe, states, k) for k in range(depth + 1))
        logits = probe(states, depth).logits
        assert logits.shape == (1, 2, 5)
        torch.testing.assert_close(logits[0], total)


def test_separate_votes_are_each_depths_own(states):
    probe = make(votes="separate")
    for depth in range(4):
        torch.testing.assert_close(probe(states, depth).logits[0], said(probe, states, depth))


@pytest.mark.parametrize("depth", range(4))
def test_the_loss_of_a_depth_reaches_its_own_voter_alone(states, depth):
    probe = make()
    probe(states, depth).log_keep().sum().backward()
    reached = [
        any(p.grad is not None and bool((p.grad != 0).any()) for p in voter.parameters()) for voter in probe.voters
    ]
    assert reached == [k == depth for k in range(4)]


def test_losses_of_several_depths_reach_each_voter_as_if_alone(states):
    together, alone = make(), make()
    torch.stack([votes.log_keep().sum() for votes in together.votes(states, [1, 3])]).sum().backward()
    for depth in (1, 3):
        alone(states, depth).log_keep().sum().backward()
    for one, other in zip(together.voters.parameters(), alone.voters.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad)


def test_a_deeper_voter_that_has_learned_nothing_repeats_the_vote_below(states):
    votes = make(trained=[0, 1]).votes(states, range(4))
    assert torch.equal(votes[2].logits, votes[1].logits) and torch.equal(votes[3].logits, votes[1].logits)
    assert not torch.isclose(votes[1].logits, votes[0].logits).any()


@pytest.mark.parametrize("votes", ["corrected", "separate"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_share_kept_at_first_is_the_one_asked_for_at_every_depth(states, votes, share):
    probe = make(trained=[], votes=votes, start_open=share)
    kept = torch.stack([vote.keep_probability() for vote in probe.votes(states, range(4))])
    torch.testing.assert_close(kept, torch.full((4, 2, 5), share))


def test_coupled_votes_keep_the_share_asked_for_at_the_last_depth_alone(states):
    probe = make(trained=[], votes="coupled", start_open=0.6)
    kept = [vote.keep_probability().mean().item() for vote in probe.votes(states, range(4))]
    assert kept == pytest.approx([0.6 ** ((depth + 1) / 4) for depth in range(4)])


def test_a_depth_may_open_what_the_depth_below_closed(states):
    probe = make(trained=[])
    with torch.no_grad():
        probe.voter(0).last.bias.fill_(-6)
        probe.voter(1).last.bias.fill_(9)
    votes = probe.votes(states, range(2))
    assert not votes[0].hard_keep().any() and votes[1].hard_keep().all()


def test_the_sum_of_votes_stays_within_the_bound_and_still_learns(states):
    probe = make(trained=[], bound=5.0)
    with torch.no_grad():
        for voter in probe.voters:
            voter.last.bias.fill_(4)
    logits = probe(states, 3).logits
    logits.sum().backward()
    assert torch.equal(logits, torch.full_like(logits, 5.0)) and float(probe.voter(3).last.bias.grad) == 10


@pytest.mark.parametrize("bias", [20.0, -20.0])
def test_published_votes_know_no_bound_but_their_own(states, bias):
    probe = make(trained=[], voter="published", votes="coupled", bound=5.0)
    with torch.no_grad():
        for voter in probe.voters:
            voter.bias.fill_(bias)
    logits = probe(states, 3).logits
    assert bool((logits.abs() >= 10).all())
    torch.testing.assert_close(logits, torch.stack([said(probe, states, depth) for depth in range(4)]))


@pytest.mark.parametrize("votes", ["corrected", "separate", "coupled"])
def test_a_shift_moves_the_votes_of_its_depth_alone(states, votes):
    probe = make(votes=votes)
    before = probe.votes(states, range(4))
    probe.shift[2] = 1.5
    for depth, (one, other) in enumerate(zip(before, probe.votes(states, range(4)), strict=True)):
        torch.testing.assert_close(other.logits, one.logits + (1.5 if depth == 2 else 0))


def test_a_voter_is_asked_once_however_many_depths_it_decides(states):
    probe, asked = make(), []
    for depth, voter in enumerate(probe.voters):
        voter.register_forward_hook(lambda *_, depth=depth: asked.append(depth))
    probe.votes(states, [1, 3, 3])
    assert sorted(asked) == [0, 1, 2, 3]


def test_the_published_voter_does_not_correct():
    with pytest.raises(SettingError, match="published starts each vote at its own bias: use votes = coupled"):
        ProbeConfig(voter="published")


def test_a_way_to_combine_votes_that_does_not_exist_is_refused():
    config = ProbeConfig()
    object.__setattr__(config, "votes", "summed")  # past the type checker, which users do not run
    with pytest.raises(SettingError, match=r"probe\.votes: no choice named 'summed'. Known: corrected.*separate"):
        config.__post_init__()
