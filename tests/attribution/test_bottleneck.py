"""The information bottleneck against one example at a time, from the paper's formulas, with Adam by hand."""

import math

import pytest
import torch

from diffmask.attribution.bottleneck import Bottleneck, information, mismatch, spread
from diffmask.attribution.method import Question
from diffmask.errors import DataError, ModelError, SettingError
from diffmask.models.sites import capture, replace
from diffmask.objective.divergence import divergence
from diffmask.tasks.tensors import TensorTask
from diffmask.training.random import NOISE, generator
from diffmask.types import Categorical, Value
from toys import evidence_model, evidence_task

TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]
MEAN, STD = torch.linspace(-0.5, 0.5, 16), torch.linspace(0.3, 1.2, 16)


def adam(value, slope_of, steps, rate):
    """Kingma and Ba (2015), by hand."""
    first, second = torch.zeros_like(value), torch.zeros_like(value)
    for number in range(steps):
        slope = slope_of(value, number)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        step = (first / (1 - 0.9 ** (number + 1))) / ((second / (1 - 0.999 ** (number + 1))).sqrt() + 1e-8)
        value = value - rate * step
    return value


def slow(question, shares, steps, beta, seed, rate=0.1):
    """Explain a question about one example whose every position is a unit."""
    model, batch, site = question.model, question.batch, question.model.sites[question.depth]
    units, hidden = batch.shape[1], 16
    with torch.no_grad(), capture([site]) as states:
        original = question.task.read(model(batch), batch)["label"].raw.argmax(-1)
    state = states[site.name][0]
    usual = torch.distributions.Normal(MEAN, STD)

    def nats(alpha):
        total = []
        for unit in range(units):
            share = torch.sigmoid(alpha[unit])
            passed = torch.distributions.Normal(share * state[unit] + (1 - share) * MEAN, (1 - share) * STD)
            total.append(torch.distributions.kl_divergence(passed, usual).sum())
        return torch.stack(total)

    def slope_of(alpha, number):
        alpha = alpha.clone().requires_grad_(True)
        draws = torch.randn(32, hidden, generator=generator(seed, NOISE, number))
        noise = MEAN + STD * draws
        rows = [a.sigmoid() * state[unit] + (1 - a.sigmoid()) * noise[unit] for unit, a in enumerate(alpha)]
        with replace(site, torch.stack(rows).unsqueeze(0)):
            logits = question.task.read(model(batch), batch)["label"].raw
        loss = torch.nn.functional.cross_entropy(logits, original) + beta * nats(alpha).sum() / (units * hidden)
        return torch.autograd.grad(loss, alpha)[0]

    start = torch.full((units, 1 if shares == "unit" else hidden), 5.0)
    with model.frozen():
        return nats(adam(start, slope_of, steps, rate)).detach()


@pytest.mark.parametrize("shares", ["unit", "feature"])
@pytest.mark.parametrize(("kind", "depth"), [("bert", 0), ("bert", 2), ("lstm", 1)])
def test_it_agrees_with_one_example_at_a_time(ask_text, kind, depth, shares):
    method = Bottleneck(shares, beta=3.0, steps=12, seed=5, mean=MEAN, std=STD)
    found = method(ask_text(TEXTS, depth, kind))
    for row, text in enumerate(TEXTS):
        expected = slow(ask_text([text], depth, kind), shares, 12, 3.0, 5)
        torch.testing.assert_close(found[row, : len(expected)], expected, rtol=1e-3, atol=1e-3)


def test_it_agrees_where_noise_and_prediction_matter_more_than_the_price(ask_text):
    # By steps of 0.1 from 5 on, a search of a few steps follows the price alone: Adam does not ask how high it is.
    method = Bottleneck(beta=0.05, steps=8, learning_rate=1.0, seed=5, mean=MEAN, std=STD)
    found = method(ask_text(TEXTS))
    for row, text in enumerate(TEXTS):
        expected = slow(ask_text([text]), "unit", 8, 0.05, 5, 1.0)
        torch.testing.assert_close(found[row, : len(expected)], expected, rtol=1e-2, atol=1e-2)


def test_the_information_is_the_divergence_of_two_normals():
    alpha, surprise = torch.tensor([[[-3.0], [0.0], [4.0]]]), torch.randn(1, 3, 5)
    share = alpha.sigmoid()
    passed, usual = torch.distributions.Normal(share * surprise, 1 - share), torch.distributions.Normal(0.0, 1.0)
    torch.testing.assert_close(
        information(alpha, surprise), torch.distributions.kl_divergence(passed, usual), rtol=1e-4, atol=1e-5
    )


def test_information_stays_exact_where_everything_or_nothing_passes():
    found = information(torch.tensor([[[60.0], [-60.0]]]), torch.tensor([[[2.0], [2.0]]]))
    assert float(found[0, 0]) == pytest.approx(60 - 0.5 + 2.0) and 0 < float(found[0, 1]) < 1e-20


def test_evidence_passes_and_the_rest_is_noise():
    task = evidence_task()
    question = Question(evidence_model(), task, task.collate(range(20)), 2, torch.zeros(4))
    scores = Bottleneck(steps=150, beta=1.0)(question)
    evidence = (question.batch.inputs["tokens"] >= 2) & question.batch.valid
    assert scores[evidence].mean() > 3 * scores[~evidence & question.batch.valid].mean()


def test_a_dearer_nat_lets_less_pass():
    task = evidence_task()
    question = Question(evidence_model(), task, task.collate(range(8)), 1, torch.zeros(4))
    cheap, dear = (Bottleneck(steps=100, beta=beta)(question).sum() for beta in (0.1, 10.0))
    assert dear < cheap


def test_what_is_usual_is_measured_on_training_data_alone():
    task = evidence_task()
    question = Question(evidence_model(), task, task.collate(task.validation[:4]), 0, torch.zeros(4))
    known = Bottleneck(examples=40, batch_size=7).surveyed(question)
    rows = task.collate([task.train[number * len(task.train) // 40] for number in range(40)])
    states = torch.eye(4)[rows.inputs["tokens"][rows.valid]]
    torch.testing.assert_close(known.mean, states.mean(0))
    torch.testing.assert_close(known.std, states.std(0, correction=0))


def test_the_share_that_passes_can_be_the_score(ask_text):
    settings = {"steps": 4, "mean": MEAN, "std": STD}
    question = ask_text(TEXTS)
    shares, nats = (Bottleneck(score=score, **settings)(question) for score in ("share", "information"))
    with torch.no_grad(), capture([question.model.sites[0]]) as states:
        question.model(question.batch)
    surprise = (states[question.site_name] - MEAN) / STD
    expected = information(shares.clamp_min(1e-6).logit().unsqueeze(-1), surprise).sum(-1) * question.batch.valid
    torch.testing.assert_close(nats, expected, rtol=1e-3, atol=1e-3)


def test_a_survey_can_be_made_once_for_many_batches(ask_text):
    method = Bottleneck(steps=3, examples=3)
    question = ask_text(TEXTS, 1)
    assert torch.equal(method.surveyed(question)(question), method(question))


def test_a_feature_that_never_moves_still_has_some_spread():
    torch.testing.assert_close(spread(torch.tensor([0.0, 2.0, 1.0])), torch.tensor([0.01, 2.0, 1.0]))
    assert spread(torch.zeros(3)).tolist() == [1, 1, 1]


def test_the_fit_is_the_cross_entropy_of_the_decision_or_a_divergence():
    original, masked = ({"y": Categorical(torch.tensor([row]))} for row in ([0.0, 2.0], [1.0, 0.0]))
    expected = -math.log(1 / (1 + math.e))
    assert float(mismatch(original, masked, "cross-entropy")) == pytest.approx(expected)
    assert torch.equal(mismatch(original, masked, "js"), divergence(original, masked, "js"))
    values = [{"y": Value(torch.tensor([value]))} for value in (1.0, 3.0)]
    assert float(mismatch(*values, "cross-entropy")) == 4


def test_without_training_data_it_asks_for_the_statistics():
    task = TensorTask({"tokens": torch.ones(3, 2).long(), "valid": torch.ones(3, 2).bool()}, torch.ones(3, 2).bool())
    task.train = []
    question = Question(evidence_model(), task, task.collate([0]), 0, torch.zeros(4))
    with pytest.raises(DataError, match="it has none: give it some, or give the method mean and std"):
        Bottleneck()(question)


def test_half_of_the_statistics_is_refused():
    with pytest.raises(SettingError, match="takes mean and std together"):
        Bottleneck(mean=torch.zeros(4))


@pytest.mark.parametrize("name", ["steps", "examples", "batch_size"])
def test_a_count_of_nothing_is_refused(name):
    with pytest.raises(SettingError, match=f"bottleneck.{name} must be at least 1, got 0"):
        Bottleneck(**{name: 0})


def test_a_model_no_gradient_comes_back_from_is_refused(ask_text, monkeypatch):
    question = ask_text()
    monkeypatch.setattr(type(question.model.model), "forward", torch.no_grad()(type(question.model.model).forward))
    with pytest.raises(ModelError, match="no gradient reaches site"):
        Bottleneck(steps=2, mean=MEAN, std=STD)(question)
