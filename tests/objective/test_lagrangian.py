"""λ against a slow scalar controller, written from the formulas in `lagrangian.py`."""

import random
from itertools import pairwise

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.objective.lagrangian import Controller, ControllerConfig, PublishedConfig, PublishedDual

COST, TARGET = torch.tensor(0.5), torch.tensor(0.1)


DUALS = [
    lambda n: Controller(n, ControllerConfig()),
    PublishedDual,
    lambda n: PublishedDual(n, PublishedConfig("adam", 20.0)),
]


def clip(x: float, low: float, high: float) -> float:
    return min(high, max(low, x))


class SlowController:
    """One λ, one number at a time."""

    def __init__(self, config: ControllerConfig) -> None:
        self.c, self.multiplier, self.smoothed = config, 0.0, 0.0

    def loss(self, cost: float, level: float, target: float) -> float:
        g = level / target - 1
        e = clip(g, -1, self.c.error_cap)
        self.smoothed = self.c.smoothing * self.smoothed + (1 - self.c.smoothing) * e
        price = clip(self.multiplier + self.c.proportional * self.smoothed, 0, self.c.ceiling)
        self.multiplier = clip(self.multiplier + self.c.integral * e, 0, self.c.ceiling)
        return (cost + price * g) / (1 + price)


class SlowPublished:
    """RMSprop ascent with Lookahead, one number at a time."""

    def __init__(self) -> None:
        self.multiplier, self.square, self.slow, self.moves = 1.0, 0.0, None, 0

    def loss(self, cost: float, level: float, target: float) -> float:
        loss, g = cost + self.multiplier * (level - target), level - target
        self.square = 0.99 * self.square + 0.01 * g**2
        self.multiplier += 0.3 * g / (self.square**0.5 + 1e-8)
        self.moves += 1
        if self.moves % 6 == 0:
            self.slow = self.multiplier if self.slow is None else (self.slow + self.multiplier) / 2
            self.multiplier = self.slow
        self.multiplier = clip(self.multiplier, 0, 200)
        return loss


class SlowAdam:
    """Adam with Lookahead on λ, one number at a time; `sign` −1 goes the way of Vision DiffMask's released code."""

    def __init__(self, sign: float) -> None:
        self.multiplier, self.m, self.v, self.slow, self.moves, self.sign = 20.0, 0.0, 0.0, None, 0, sign

    def loss(self, cost: float, level: float, target: float) -> float:
        loss, g = cost + self.multiplier * (level - target), self.sign * (level - target)
        self.moves += 1
        self.m, self.v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g**2
        m, v = self.m / (1 - 0.9**self.moves), self.v / (1 - 0.999**self.moves)
        self.multiplier += 0.3 * m / (v**0.5 + 1e-8)
        if self.moves % 6 == 0:
            self.slow = self.multiplier if self.slow is None else (self.slow + self.multiplier) / 2
            self.multiplier = self.slow
        self.multiplier = clip(self.multiplier, 0, 200)
        return loss


def constant(dual, level: float, steps: int) -> list[float]:
    """The multiplier after each of some steps at one level."""
    path = []
    for _ in range(steps):
        dual(COST, torch.tensor(level), TARGET, 0)
        path.append(float(dual.multiplier[0]))
    return path


CONFIGS = [
    ControllerConfig(),
    ControllerConfig(integral=0.5, proportional=0.0),
    ControllerConfig(0.3, 4.0, 0.0, 2.0, 3.0),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_controller_agrees_with_a_slow_scalar_one(config):
    draw = random.Random(0)
    fast, slow = Controller(2, config), SlowController(config)
    for step in range(400):
        level = 0.1 * 10 ** draw.uniform(-1.5, 1.2) if step % 100 < 60 else 0.02
        cost, target = draw.random(), draw.uniform(0.05, 0.2)
        loss = fast(torch.tensor(cost), torch.tensor(level), torch.tensor(target), 1)
        assert float(loss) == pytest.approx(slow.loss(cost, level, target), rel=1e-3, abs=1e-5)
        assert float(fast.multiplier[1]) == pytest.approx(slow.multiplier, rel=1e-4, abs=1e-5)
    assert float(fast.multiplier[0]) == 0


def test_a_broken_constraint_raises_the_multiplier_at_every_step():
    path = constant(Controller(1, ControllerConfig()), 0.11, 200)
    assert all(after > before for before, after in pairwise([0.0, *path]))


def test_a_kept_constraint_lowers_the_multiplier_at_every_step_down_to_zero():
    controller = Controller(1, ControllerConfig())
    controller.multiplier.fill_(0.5)
    path = constant(controller, 0.05, 200)
    positive = [0.5, *(x for x in path if x > 0)]
    assert all(after < before for before, after in pairwise(positive))
    assert 50 < len(positive) < 150 and path[-1] == 0


def test_a_constraint_that_just_holds_leaves_the_multiplier():
    controller = Controller(1, ControllerConfig())
    controller.multiplier.fill_(0.5)
    assert constant(controller, 0.1, 10)[-1] == pytest.approx(0.5)


def test_multiplier_and_price_stay_below_the_ceiling():
    controller = Controller(1, ControllerConfig(integral=10.0, ceiling=50.0))
    assert max(constant(controller, 100.0, 50)) == 50
    loss = controller(torch.tensor(0.0), torch.tensor(0.2), TARGET, 0)
    assert float(loss) == pytest.approx(50 / 51)  # (0 + 50·1) / (1 + 50)


def test_a_huge_violation_winds_up_no_more_than_the_cap():
    small, huge = (constant(Controller(1, ControllerConfig()), level, 20) for level in (0.6, 1e6))
    assert small == pytest.approx(huge) and huge[-1] == pytest.approx(20 * 0.01 * 5)


def test_at_the_ceiling_nothing_is_stored_up():
    controller = Controller(1, ControllerConfig(integral=1.0, ceiling=10.0))
    constant(controller, 100.0, 500)
    assert constant(controller, 0.05, 1)[0] == pytest.approx(9.5)


def test_at_zero_nothing_is_stored_up():
    controller = Controller(1, ControllerConfig(integral=1.0))
    constant(controller, 0.0, 500)
    assert constant(controller, 0.2, 1)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("make", DUALS)
def test_each_index_is_on_its_own(make):
    dual, alone = make(3), make(1)
    dual(COST, torch.tensor(0.5), TARGET, 0)
    for _ in range(8):
        dual(COST, torch.tensor(0.3), TARGET, 2)
        alone(COST, torch.tensor(0.3), TARGET, 0)
    assert torch.equal(dual.multiplier[2], alone.multiplier[0])
    assert torch.equal(dual.multiplier[1], make(1).multiplier[0])


@pytest.mark.parametrize("make", DUALS)
def test_all_examples_at_once_are_each_one_alone(make):
    together, alone = make(3), [make(1) for _ in range(3)]
    for step in range(20):
        levels = torch.tensor([0.05, 0.2, 0.1 + 0.01 * step])
        losses = together(COST.expand(3), levels, TARGET.expand(3), slice(None))
        for i in range(3):
            assert torch.isclose(losses[i], alone[i](COST, levels[i], TARGET, 0))
            assert torch.isclose(together.multiplier[i], alone[i].multiplier[0])


@pytest.mark.parametrize("make", DUALS)
def test_a_reset_forgets_one_index_and_no_other(make):
    dual, kept = make(2), make(1)
    for _ in range(7):
        dual(COST, torch.tensor(0.3), TARGET, 0)
        dual(COST, torch.tensor(0.3), TARGET, 1)
        kept(COST, torch.tensor(0.3), TARGET, 0)
    dual.reset(0)
    for name, buffer in dual.named_buffers():
        assert torch.equal(buffer[0], make(1).get_buffer(name)[0])
        assert torch.equal(buffer[1], kept.get_buffer(name)[0])


def test_the_price_has_no_gradient_and_the_loss_is_normalised():
    controller = Controller(1, ControllerConfig())
    controller.multiplier.fill_(3.0)
    cost, level = torch.tensor(0.5, requires_grad=True), torch.tensor(0.1, requires_grad=True)
    controller(cost, level, TARGET, 0).backward()
    assert float(cost.grad) == pytest.approx(1 / 4) and float(level.grad) == pytest.approx(3 / 4 / 0.1, rel=1e-4)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_published_first_move_is_three_whatever_the_violation(size, sign):
    dual = PublishedDual(1)
    dual.multiplier.fill_(50.0)
    dual(COST, TARGET + sign * size, TARGET, 0)
    assert float(dual.multiplier[0]) == pytest.approx(50 + sign * 3, abs=0.01)


def test_the_published_dual_agrees_with_a_slow_scalar_one():
    draw = random.Random(1)
    fast, slow = PublishedDual(1), SlowPublished()
    for _ in range(200):
        cost, level = draw.random(), draw.uniform(0.0, 0.25)
        loss = fast(torch.tensor(cost), torch.tensor(level), TARGET, 0)
        assert float(loss) == pytest.approx(slow.loss(cost, level, float(TARGET)), rel=1e-3, abs=1e-3)
        assert float(fast.multiplier[0]) == pytest.approx(slow.multiplier, rel=1e-3, abs=1e-3)


def test_the_published_multiplier_stays_between_zero_and_two_hundred():
    assert max(constant(PublishedDual(1), 5.0, 2000)) == 200
    assert min(constant(PublishedDual(1), 0.0, 20)) == 0


VISION = PublishedConfig("adam", 20.0)
RELEASED = PublishedConfig("adam", 20.0, sign="descent")


@pytest.mark.parametrize(("config", "sign"), [(VISION, 1), (RELEASED, -1)])
def test_the_vision_dual_agrees_with_a_slow_scalar_one_in_both_directions(config, sign):
    draw = random.Random(2)
    fast, slow = PublishedDual(2, config), SlowAdam(sign)
    for _ in range(200):
        cost, level = draw.random(), draw.uniform(0.0, 0.3)
        loss = fast(torch.tensor(cost), torch.tensor(level), TARGET, 1)
        assert float(loss) == pytest.approx(slow.loss(cost, level, float(TARGET)), rel=1e-3, abs=1e-3)
        assert float(fast.multiplier[1]) == pytest.approx(slow.multiplier, rel=1e-3, abs=1e-3)
    assert float(fast.multiplier[0]) == 20


def test_the_released_sign_lowers_the_price_of_a_broken_constraint_and_raises_that_of_a_kept_one():
    right, wrong = (lambda level, c=c: constant(PublishedDual(1, c), level, 60)[-1] for c in (VISION, RELEASED))
    assert right(0.5) > 29 > 11 > wrong(0.5)
    assert right(0.0) < 11 < 29 < wrong(0.0)
    assert constant(PublishedDual(1, RELEASED), 0.0, 2000)[-1] == 200  # a fixed penalty in the end


def test_the_vision_dual_starts_again_where_it_started():
    dual = PublishedDual(2, VISION)
    constant(dual, 0.3, 9)
    dual.reset(0)
    assert all(torch.equal(b[0], PublishedDual(1, VISION).get_buffer(n)[0]) for n, b in dual.named_buffers())


@pytest.mark.parametrize("wrong", [{"speed": 0.0}, {"initial": -1.0}, {"initial": 300.0}, {"highest": -1.0}])
def test_a_published_price_that_cannot_move_is_refused(wrong):
    with pytest.raises(SettingError, match="published λ needs speed > 0 and 0 ≤ initial ≤ highest"):
        PublishedConfig(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"smoothing": 1.0}, r"controller\.smoothing must lie in \[0, 1\), got 1\.0"),
        ({"integral": 0.0}, "controller gains must be positive"),
        ({"proportional": -1.0}, "controller gains must be positive"),
        ({"ceiling": 0.0}, "controller gains must be positive"),
    ],
)
def test_gains_that_cannot_work_are_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        ControllerConfig(**wrong)
