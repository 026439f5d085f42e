"""Guan et al. against the closed form of a linear model, and against one example at a time."""

import pytest
import torch

from diffmask.attribution.guan import Guan, squared_change
from diffmask.errors import ModelError, SettingError
from diffmask.models.sites import capture, replace
from diffmask.training.random import NOISE, generator
from diffmask.types import Bernoulli, Categorical

TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]


def slow(question, steps, weight, seed):
    """Explain a question about one example whose every position is a unit, from the formula."""
    model, batch, site = question.model, question.batch, question.model.sites[question.depth]
    with torch.no_grad(), capture([site]) as states:
        original = question.task.read(model(batch), batch)["label"].raw
    state = states[site.name][0]
    free = torch.full((batch.shape[1],), -5.0, requires_grad=True)
    optimizer = torch.optim.Adam([free], lr=0.1)
    with model.frozen():
        for number in range(steps):
            draws = torch.randn(32, 16, generator=generator(seed, NOISE, number))
            noise = [torch.log(1 + s.exp()) for s in free]
            rows = [state[unit] + noise[unit] * draws[unit] for unit in range(len(state))]
            with replace(site, torch.stack(rows).unsqueeze(0)):
                logits = question.task.read(model(batch), batch)["label"].raw
            loss = ((logits - original) ** 2).sum() - weight * sum(sigma.log() for sigma in noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return 1 / torch.log(1 + free.detach().exp())


@pytest.mark.parametrize(("kind", "depth"), [("bert", 0), ("bert", 2), ("lstm", 1)])
def test_it_agrees_with_one_example_at_a_time(ask_text, kind, depth):
    found = Guan(weight=0.5, steps=15, seed=3)(ask_text(TEXTS, depth, kind))
    for row, text in enumerate(TEXTS):
        expected = slow(ask_text([text], depth, kind), 15, 0.5, 3)
        torch.testing.assert_close(found[row, : len(expected)], expected, rtol=1e-3, atol=1e-3)


def test_on_a_linear_model_it_is_the_size_of_the_gradient(linear):
    scores = Guan(weight=0.02, steps=700, learning_rate=0.02)(linear)
    expected = linear.model.model.weight.detach().norm(dim=1) / (0.02 / 2) ** 0.5  # 1/σ at the optimum
    for row, valid in enumerate(linear.batch.valid):
        torch.testing.assert_close(scores[row][valid], expected[valid], rtol=0.35, atol=0)  # one draw of noise a step
    # The value is linear and one noise is shared, so all examples of a length see the same problem.
    torch.testing.assert_close(scores[0], scores[5])


def test_what_the_model_does_not_read_bears_any_noise(linear):
    with torch.no_grad():
        linear.model.model.weight[1] = 0
    noise = Guan(steps=200).noise(linear)[0]
    assert noise[1] > 10 * noise[[0, 2, 3, 4]].max()


def test_the_change_is_squared_over_every_output_but_those_ruled_out():
    before = {"start": Categorical(torch.tensor([[1.0, -torch.inf, 3.0]])), "yes": Bernoulli(torch.tensor([[2.0]]))}
    after = {"start": Categorical(torch.tensor([[2.0, -torch.inf, 1.0]])), "yes": Bernoulli(torch.tensor([[1.5]]))}
    assert float(squared_change(before, after)) == pytest.approx(1 + 4 + 0.25)


@pytest.mark.parametrize(
    ("settings", "words"), [({"weight": 0.0}, "guan.weight must be positive"), ({"steps": 0}, "guan.steps must be")]
)
def test_settings_that_ask_for_nothing_are_refused(settings, words):
    with pytest.raises(SettingError, match=words):
        Guan(**settings)


def test_a_model_no_gradient_comes_back_from_is_refused(ask_text, monkeypatch):
    question = ask_text()
    monkeypatch.setattr(type(question.model.model), "forward", torch.no_grad()(type(question.model.model).forward))
    with pytest.raises(ModelError, match="no gradient reaches site"):
        Guan(steps=2)(question)
