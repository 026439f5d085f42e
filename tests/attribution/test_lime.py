"""LIME against the closed form of an additive model, and against a regression on every set, written out."""

import numpy as np
import pytest
import torch

from diffmask.attribution.lime import Lime
from diffmask.errors import SettingError
from diffmask.objective.target import target
from diffmask.training.step import look


def test_on_an_additive_model_without_a_price_a_unit_gets_what_it_adds(linear):
    model = linear.model.model
    change = ((model.embedding(linear.batch.inputs["ids"]) - linear.baseline) * model.weight).sum(-1)
    found = Lime(ridge=0.0).signed(linear)
    torch.testing.assert_close(found, (change * linear.batch.valid).detach(), rtol=1e-4, atol=1e-4)


def on_every_set(question, width):
    """Solve the regression on all sets of the one example, each weighted by how near it is, in float64."""
    units = int(question.batch.valid.sum())
    sets = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * units)
    keep = torch.ones(len(sets), question.batch.valid.shape[1])
    keep[:, question.batch.valid[0]] = sets
    with torch.no_grad(), question.model.frozen():
        seen = look(question.model, question.task, question.batch.repeat(len(sets)))
        value = target(seen.masked_at(question.site_name, keep, question.baseline), seen.original).double()
    cosine = torch.nn.functional.cosine_similarity(sets, torch.ones(1, units)).double()
    weight = (-((1 - cosine) ** 2) / (2 * width**2)).exp().sqrt().unsqueeze(1)
    rows = torch.cat([sets, torch.ones(len(sets), 1)], 1).double()
    found = torch.zeros(question.batch.valid.shape)
    found[question.batch.valid] = torch.linalg.lstsq(weight * rows, weight * value.unsqueeze(1))[0][:units, 0].float()
    return found


@pytest.mark.parametrize(("kind", "depth", "unit"), [("bert", 0, "word"), ("llama", 1, "token"), ("lstm", 0, "word")])
def test_many_samples_come_close_to_the_regression_on_every_set(ask_text, kind, depth, unit):
    question = ask_text(["a funny movie ."], depth, kind, unit=unit)
    expected = on_every_set(question, 0.4)
    found = Lime(samples=1500, width=0.4, ridge=0.0, batch_size=500).signed(question)
    assert (found - expected).abs().max() < 0.15 * expected.abs().max()


def test_a_price_makes_weights_smaller(ask_text):
    question = ask_text(["a funny movie ."])
    free, dear = (Lime(ridge=ridge)(question).sum() for ridge in (0.0, 100.0))
    assert 0 < dear < free / 2


def test_scores_are_sizes_and_do_not_depend_on_batch_mates(ask_text):
    method, texts = Lime(samples=30), ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]
    scores = method(ask_text(texts))
    assert torch.equal(scores, method.signed(ask_text(texts)).abs())
    alone = method(ask_text(texts[:1]))
    torch.testing.assert_close(scores[:1, : alone.shape[1]], alone, rtol=1e-3, atol=1e-4)
    assert (scores[0, alone.shape[1] :] == 0).all()


def test_the_users_dice_stay_where_they_are_and_the_seed_decides(ask_text):
    question = ask_text(["a funny movie ."])
    before, numpys = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = Lime(samples=30)(question)
    assert torch.equal(torch.get_rng_state(), before) and (np.random.get_state()[1] == numpys).all()
    torch.manual_seed(5)
    assert torch.equal(Lime(samples=30)(question), first)
    assert not torch.equal(Lime(samples=30, seed=1)(question), first)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"samples": 0}, "samples of lime must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size of lime must be at least 1, got 0"),
        ({"width": 0.0}, "width of lime must be positive, got 0.0"),
        ({"ridge": -1.0}, "ridge of lime must not be negative, got -1.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        Lime(**settings)
