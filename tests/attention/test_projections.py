"""Projections against the entmax package, a brute-force search over supports, and their own optimality."""

from itertools import combinations

import entmax
import pytest
import torch

from diffmask.attention.projections import entmax15, softmax, sparsegen, sparsemax
from diffmask.errors import SettingError

ALL = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "sparsegen": lambda a, m=None: sparsegen(a, m, 0.4),
    "entmax15": entmax15,
}
each = pytest.mark.parametrize("project", ALL.values(), ids=ALL)


def draw(*shape, scale=2.0, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double) * scale


def solve_quadratic(a, sparsity):
    """Minimise ‖p − a‖² − λ‖p‖² by trying every support and solving for the multiplier on it."""
    best, answer = torch.inf, None
    for size in range(1, len(a) + 1):
        for support in map(list, combinations(range(len(a)), size)):
            p = torch.zeros_like(a)
            p[support] = a[support] / (1 - sparsity) - (a[support].sum() / (1 - sparsity) - 1) / size
            value = (p - a).square().sum() - sparsity * p.square().sum()
            if (p >= 0).all() and value < best:
                best, answer = value, p
    return answer


@pytest.mark.parametrize("sparsity", [-10.0, -1.0, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_sparsegen_minimises_its_objective_over_every_support(sparsity, seed):
    a = draw(7, seed=seed, scale=1.0)
    assert torch.allclose(sparsegen(a, None, sparsity), solve_quadratic(a, sparsity), atol=1e-12)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_sparsemax_and_entmax_agree_with_the_entmax_package(scale):
    a = draw(50, 40, scale=scale)
    assert torch.allclose(sparsemax(a), entmax.sparsemax(a), atol=1e-12)
    assert torch.allclose(entmax15(a), entmax.entmax15(a), atol=1e-10)


def test_entmax_agrees_with_bisection_for_its_threshold():
    a = draw(20, 15)
    assert torch.allclose(entmax15(a), entmax.entmax_bisect(a, alpha=1.5, n_iter=80), atol=1e-10)


def test_gradients_agree_with_the_entmax_package():
    a, pull = draw(30, 20).requires_grad_(), draw(30, 20, seed=1)
    for ours, theirs in ((sparsemax, entmax.sparsemax), (entmax15, entmax.entmax15)):
        found, expected = (torch.autograd.grad((f(a) * pull).sum(), a)[0] for f in (ours, theirs))
        assert torch.allclose(found, expected, atol=1e-9)


@each
def test_weights_are_a_distribution_over_attended_positions(project):
    a, attended = draw(20, 12), draw(20, 12, seed=1) > -1
    attended[:, 0] = True
    p = project(a, attended)
    assert (p >= 0).all() and torch.allclose(p.sum(-1), torch.ones(20, dtype=torch.double))
    assert (p[~attended] == 0).all()


@each
def test_padding_changes_nothing_whatever_stands_there(project):
    a = draw(4, 6)
    for junk in (1e9, -1e9, torch.inf, torch.nan):
        longer = torch.cat([torch.full((4, 2), junk, dtype=torch.double), a, torch.full((4, 3), junk).double()], dim=1)
        attended = torch.tensor([False] * 2 + [True] * 6 + [False] * 3).expand(4, -1)
        assert torch.allclose(project(longer, attended)[:, 2:8], project(a), atol=1e-15)


@each
def test_a_row_with_nothing_to_attend_to_is_all_zero_and_has_no_gradient(project):
    a = draw(2, 3).requires_grad_()
    p = project(a, torch.tensor([[False] * 3, [True, True, False]]))
    assert (p[0] == 0).all() and torch.isclose(p[1].sum(), torch.ones((), dtype=torch.double))
    assert (torch.autograd.grad(p.square().sum(), a)[0][0] == 0).all()


@each
def test_gradients_are_right_once_and_twice(project):
    a, attended = draw(3, 6).requires_grad_(), torch.tensor([True] * 5 + [False]).expand(3, -1)
    assert torch.autograd.gradcheck(lambda x: project(x, attended), a)
    assert torch.autograd.gradgradcheck(lambda x: project(x, attended), a)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch.func's own
@each
def test_torch_func_takes_jacobians_and_maps_over_rows(project):
    a, attended = draw(4, 6), torch.tensor([True] * 5 + [False]).expand(4, -1)
    assert torch.allclose(torch.func.vmap(project)(a, attended), project(a, attended))
    jacobians = torch.func.vmap(torch.func.jacrev(project))(a, attended)
    forward = torch.func.vmap(torch.func.jacfwd(project))(a, attended)
    plain = [torch.autograd.functional.jacobian(lambda x, i=i: project(x, attended[i]), a[i]) for i in range(4)]
    assert torch.allclose(jacobians, torch.stack(plain)) and torch.allclose(forward, jacobians)
    hessian = torch.func.hessian(lambda x: project(x, attended[0]).square().sum())(a[0])
    assert torch.allclose(hessian, hessian.T)


def test_the_jacobian_of_sparsegen_is_its_closed_form():
    a, sparsity = draw(9), -2.0
    s = (sparsegen(a, None, sparsity) > 0).double()
    expected = (torch.diag(s) - torch.outer(s, s) / s.sum()) / (1 - sparsity)
    assert torch.allclose(torch.func.jacrev(lambda x: sparsegen(x, None, sparsity))(a), expected)


@each
def test_a_shift_of_all_scores_changes_nothing(project):
    assert torch.allclose(project(draw(5, 8)), project(draw(5, 8) + 1e6), atol=1e-8)


@each
def test_equal_scores_get_equal_weights(project):
    assert torch.allclose(project(torch.zeros(2, 7)), torch.full((2, 7), 1 / 7))


@each
def test_one_position_gets_everything(project):
    assert torch.equal(project(torch.tensor([[-5.0]])), torch.ones(1, 1))


def test_sparsity_goes_from_uniform_over_sparsemax_to_the_largest_alone():
    a = draw(10)
    assert torch.allclose(sparsegen(a, None, -1e6), torch.full((10,), 0.1).double(), atol=1e-4)
    assert torch.equal(sparsegen(a, None, 0.0), sparsemax(a))
    assert torch.equal(sparsegen(a, None, 0.9999), torch.nn.functional.one_hot(a.argmax(), 10).double())


def test_support_shrinks_with_sparsity_as_the_research_counted():
    a = draw(400, 200, scale=1.0)
    counts = [(sparsegen(a, None, s) > 0).double().sum(-1).mean() for s in (-10.0, -1.0, 0.0, 0.5)]
    assert torch.allclose(torch.stack(counts), torch.tensor([23.0, 6.1, 3.6, 2.4]).double(), atol=0.5)


@each
def test_half_precision_is_projected_in_float32(project):
    a = draw(8, 30).to(torch.bfloat16)
    assert project(a).dtype == torch.bfloat16
    assert torch.equal(project(a), project(a.float()).to(torch.bfloat16))


@each
def test_float32_weights_add_up_for_long_rows_and_large_scores(project):
    for scale in (1e-3, 1.0, 1e4):
        p = project(draw(5, 3000, scale=scale).float())
        assert torch.allclose(p.sum(-1), torch.ones(5), atol=1e-4) and (p >= 0).all()


@pytest.mark.parametrize("sparsity", [1.0, 2.0, float("nan"), float("-inf"), float("inf")])
def test_a_sparsity_of_one_or_more_is_refused(sparsity):
    with pytest.raises(SettingError, match=r"below 1, got .*closer to 1 is sparser"):
        sparsegen(torch.zeros(3), None, sparsity)
