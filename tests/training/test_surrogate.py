import torch

from diffmask.training.surrogate import dice, regression


def drawn(sets, units):
    generator = torch.Generator().manual_seed(0)
    keep = torch.randint(2, (sets, units), generator=generator).float()
    value, weight = torch.randn(sets, generator=generator), torch.rand(sets, generator=generator)
    return keep, value, weight


def test_a_regression_solves_the_normal_equations_with_a_free_intercept():
    keep, value, weight = drawn(30, 4)
    for ridge in (0.0, 2.0):
        rows = torch.cat([keep, torch.ones(30, 1)], 1).double()
        left = rows.T @ (weight.double().unsqueeze(1) * rows) + torch.diag(torch.tensor([ridge] * 4 + [0.0])).double()
        expected = torch.linalg.solve(left, rows.T @ (weight * value).double())[:4]
        torch.testing.assert_close(regression(keep, value, weight, ridge), expected.float())


def test_of_many_solutions_the_shortest_is_taken():
    keep = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    found = regression(keep, torch.tensor([0.0, 3.0]), torch.ones(2), 0.0)
    torch.testing.assert_close(found, torch.tensor([1.5, 1.5, 0.0]))


def test_dice_fall_as_seeded_and_are_put_back():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with dice(1):
        first = torch.rand(2)
    assert torch.equal(torch.rand(3), expected)
    with dice(1):
        assert torch.equal(torch.rand(2), first)
