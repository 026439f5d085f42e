import torch

from diffmask.training.optimizer import LookaheadRMSprop


def slow_lookahead_rmsprop(start, gradients, rate):
    """Centred RMSprop (decay 0.99, eps 1e-8) with Lookahead (6 steps, half), one number at a time."""
    fast, square, average, slow = start, 0.0, 0.0, None
    for number, gradient in enumerate(gradients, start=1):
        square = 0.99 * square + 0.01 * gradient**2
        average = 0.99 * average + 0.01 * gradient
        fast -= rate * gradient / ((square - average**2) ** 0.5 + 1e-8)
        if number % 6 == 0:
            slow = fast if slow is None else slow + 0.5 * (fast - slow)
            fast = slow
    return fast


def test_lookahead_rmsprop_agrees_with_a_scalar_version_of_its_formulas():
    gradients = torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = torch.nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    optimizer = LookaheadRMSprop([weight], lr=0.05)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    expected = slow_lookahead_rmsprop(1.5, gradients.tolist(), 0.05)
    torch.testing.assert_close(weight.item(), expected, rtol=1e-9, atol=1e-9)
