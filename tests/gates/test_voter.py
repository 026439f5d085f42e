"""Voters start where they are told, whatever they read, and can always move."""

import pytest
import torch

from diffmask.gates import voter as voters
from diffmask.gates.voter import LinearVoter, PublishedVoter, Voter, ask, bounded, scale_of


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def trained(voter: Voter, scale: float = 1.0) -> Voter:
    torch.nn.init.normal_(voter.last.weight, std=scale)
    return voter


def test_every_unit_gets_the_same_logit_at_first():
    assert torch.equal(Voter(4, 8, start=1.5)(torch.randn(2, 3, 4)), torch.full((2, 3), 1.5))


def test_votes_differ_once_it_has_learned():
    assert trained(Voter(4, 8, start=1.5))(torch.randn(2, 3, 4)).unique().numel() == 6


def test_a_vote_is_an_mlp_on_standardised_states():
    voter, state = trained(Voter(3, 5, start=0.4)), torch.randn(2, 3)
    mean, std = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([2.0, 0.5, 3.0])
    voter.standardise(mean, std)
    hidden = torch.tanh(((state - mean) / std) @ voter.first.weight.T + voter.first.bias)
    assert torch.allclose(voter(state), 0.4 + hidden @ voter.last.weight[0], atol=1e-6)


def test_a_linear_vote_is_a_sum_of_standardised_states_and_starts_where_it_is_told():
    voter, state = LinearVoter(3, start=0.4), torch.randn(5, 3)
    mean, std = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([2.0, 0.5, 3.0])
    voter.standardise(mean, std)
    assert torch.equal(voter(state), torch.full((5,), 0.4))
    weights, level = torch.nn.init.normal_(voter.weights), torch.nn.init.constant_(voter.level, 0.7)
    torch.testing.assert_close(voter(state), 0.4 + ((state - mean) / std) @ weights + 3**0.5 * level)
    voter.restart()
    assert torch.equal(voter(state), torch.full((5,), 0.4))


def test_what_a_linear_voter_says_of_all_units_moves_as_far_as_what_it_says_of_one():
    voter, state = LinearVoter(400, start=0.0), torch.randn(1000, 400)
    torch.nn.init.constant_(voter.level, 0.01)
    together = voter(state).mean().item()
    voter.restart()
    torch.nn.init.constant_(voter.weights, 0.01)
    assert together == pytest.approx(voter(state).std().item(), rel=0.1)


def test_linear_voters_of_all_seeds_start_alike():
    said = []
    for seed in range(2):
        torch.manual_seed(seed)
        said.append(LinearVoter(4, start=1.0).state_dict())
    assert all(torch.equal(said[0][name], said[1][name]) for name in said[0])


def test_the_size_of_a_models_states_does_not_matter():
    voter, state = trained(Voter(4, 8, start=0.0)), torch.randn(50, 4)
    votes = []
    for scale, offset in ((1.0, 0.0), (1000.0, 70.0)):
        moved = scale * state + offset
        voter.standardise(moved.mean(0), moved.std(0))
        votes.append(voter(moved))
    assert torch.allclose(*votes, atol=1e-3)


@pytest.mark.parametrize(
    "make", [lambda: Voter(3, 8, start=0.0), lambda: LinearVoter(3, start=0.0)], ids=["mlp", "sum"]
)
def test_what_never_varied_is_not_read_however_another_precision_rounds_it(make):
    voter = make()
    for weight in voter.parameters():
        torch.nn.init.normal_(weight)
    voter.standardise(torch.tensor([3.1, 1e-3, 0.0]), torch.tensor([0.0, 1e-7, 1.0]))  # the second: by float32 alone
    state = torch.tensor([[3.1, 1e-3, 0.5], [-2.0, 1e-3, 3.0]])
    rounded = torch.cat([state[:, :2].bfloat16().float(), state[:, 2:]], dim=1)
    assert torch.equal(voter(state), voter(rounded)) and voter(state).unique().numel() == 2


def test_what_varies_little_beside_its_level_or_beside_other_numbers_is_still_read():
    mean, std = torch.tensor([100.0, 0.0, 0.0]), torch.tensor([0.1, 1e-3, 20.0])
    torch.testing.assert_close(scale_of(mean, std), 1 / std)


def test_states_of_any_size_are_standardised():
    torch.testing.assert_close(scale_of(torch.zeros(2), torch.tensor([1e-9, 2e-9])), torch.tensor([1e9, 5e8]))


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_logit_beyond_the_bound_is_cut_and_still_has_a_gradient(side):
    logit = torch.full((5,), 20 * side, requires_grad=True)
    cut = bounded(logit, 9.0)
    cut.sum().backward()
    assert torch.equal(cut, torch.full((5,), 9 * side)) and logit.grad.tolist() == [1] * 5


def test_a_logit_within_the_bound_is_left_alone():
    logit = torch.linspace(-9, 9, 7)
    torch.testing.assert_close(bounded(logit, 9.0), logit)


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_the_spread_sets_how_far_from_linear_a_voter_starts(spread):
    voter = Voter(16, 256, start=0.0, spread=spread)
    assert float(voter.first.weight.detach().std()) == pytest.approx(spread / 4, rel=0.05)


def test_restarting_forgets_what_was_learned_and_follows_the_generator():
    voter = trained(Voter(4, 8, start=0.7))
    first = voter.first.weight.clone()
    draws = []
    for _ in range(2):
        voter.restart(torch.Generator().manual_seed(3))
        draws.append(voter.first.weight.clone())
    assert torch.equal(*draws) and not torch.isclose(draws[0], first).any()
    assert torch.equal(voter(torch.randn(2, 4)), torch.full((2,), 0.7))


def test_the_first_layer_is_not_linear_from_the_start():
    voter = Voter(16, 256, start=0.0)
    assert float(voter.first(torch.randn(100, 16)).detach().std()) == pytest.approx((9 + 1) ** 0.5, rel=0.1)


def test_half_precision_states_are_read_in_float32():
    assert trained(Voter(4, 8, start=0.0))(torch.randn(2, 4).half()).dtype == torch.float32


def test_the_published_gate_stays_within_ten_of_a_bias_that_starts_at_five():
    voter = PublishedVoter(4, 8)
    votes = voter(100 * torch.randn(500, 4)).detach()
    assert bool((votes >= -5).all()) and bool((votes <= 15).all()) and voter.bias.item() == 5
    assert votes.unique().numel() > 1


def test_the_published_gate_is_two_weight_normalised_layers():
    voter, state = PublishedVoter(3, 5), torch.randn(2, 3)
    first, last = voter.net[0], voter.net[2]
    hidden = torch.tanh(state @ first.weight.T + first.bias)
    assert torch.allclose(voter(state), 10 * torch.tanh(hidden @ last.weight[0]) + 5, atol=1e-5)
    assert last.bias is None and "original0" in dict(first.parametrizations.weight.named_parameters())


@pytest.mark.parametrize(("stretch", "offset", "inner"), [(10.0, 5.0, False), (15.0, 8.0, True)])
def test_a_published_vote_is_the_papers_formula(stretch, offset, inner):
    voter, state = PublishedVoter(6, 4, stretch, offset, inner), torch.randn(5, 6)
    first, last = voter.net[0], voter.net[2]
    inside = torch.tanh(first(state)) @ last.weight[0] + (last.bias if inner else 0)
    torch.testing.assert_close(voter(state), stretch * torch.tanh(inside) + offset)
    assert (voter(1e6 * state) - offset).abs().max() <= stretch


def test_vision_diffmasks_gate_has_as_many_weights_as_theirs():
    voter = PublishedVoter(1536, 192, 15.0, 8.0, inner=True)
    assert sum(parameter.numel() for parameter in voter.parameters()) == 295_491


def test_voters_asked_at_once_say_and_learn_what_each_does_alone(monkeypatch):
    some = [trained(Voter(width, 5, start)) for width, start in ((3, 1.5), (6, 0.0), (6, 0.0), (6, 0.0), (6, 1.0))]
    for voter in some:
        voter.standardise(torch.randn_like(voter.mean), torch.rand_like(voter.mean) + 0.5)
    some.append(PublishedVoter(6, 5))
    states = [torch.randn(2, 4, width) for width in (3, 6, 6, 6, 6, 6)]

    def answers():
        said = torch.stack(ask(some, states))
        said.square().sum().backward()
        weights = [parameter for voter in some for parameter in voter.parameters()]
        found = [said.detach(), *(weight.grad.clone() for weight in weights)]
        for voter in some:
            voter.zero_grad()
        return found

    alone = answers()
    monkeypatch.setitem(voters.SMALL, "cpu", 1 << 22)
    for one, other in zip(answers(), alone, strict=True):
        torch.testing.assert_close(one, other)
