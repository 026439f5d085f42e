"""KernelSHAP against Shapley values by their definition: every unit, every set of the others."""

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

from diffmask.attribution.kernel_shap import KernelShap
from diffmask.errors import SettingError
from diffmask.objective.target import target
from diffmask.training.step import look


def value_of(question, row, kept):
    """Return the target of one example with only some of its units."""
    batch = question.batch.example(row)
    keep = torch.zeros(batch.valid.shape)
    keep[0, list(kept)] = 1
    with torch.no_grad(), question.model.frozen():
        seen = look(question.model, question.task, batch)
        return float(target(seen.masked_at(question.site_name, keep, question.baseline), seen.original))


def shapley(question):
    """Compute Shapley values by definition."""
    found = torch.zeros(question.batch.valid.shape)
    for row, valid in enumerate(question.batch.valid):
        units = valid.nonzero().flatten().tolist()
        value = {
            kept: value_of(question, row, kept) for size in range(len(units) + 1) for kept in combinations(units, size)
        }
        for unit in units:
            for kept in value:
                if unit not in kept:
                    share = 1 / (len(units) * comb(len(units) - 1, len(kept)))
                    found[row, unit] += share * (value[tuple(sorted((*kept, unit)))] - value[kept])
    return found


@pytest.mark.parametrize("samples", [12, 200])
def test_on_an_additive_model_a_unit_gets_what_it_adds(linear, samples):
    model = linear.model.model
    change = ((model.embedding(linear.batch.inputs["ids"]) - linear.baseline) * model.weight).sum(-1)
    found = KernelShap(samples=samples).signed(linear)  # 12 sets are drawn, 200 are more than there are
    torch.testing.assert_close(found, (change * linear.batch.valid).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "depth", "settings"),
    [
        ("bert", 0, {"unit": "word", "gate_special": False}),
        ("bert", 2, {"gate_special": False}),
        ("llama", 1, {"padding_side": "left"}),
        ("lstm", 0, {"unit": "word"}),
    ],
)
def test_where_every_set_is_tried_it_is_the_shapley_value(ask_text, kind, depth, settings):
    question = ask_text(["a funny movie .", "enjoyable fast"], depth, kind, **settings)
    torch.testing.assert_close(KernelShap().signed(question), shapley(question), rtol=1e-4, atol=1e-4)


def test_as_many_samples_as_there_are_sets_are_enough_to_try_each(ask_text):
    question = ask_text(["a fast movie"], gate_special=False)
    exact = KernelShap(samples=2 ** int(question.batch.valid.sum()), seed=3).signed(question)
    torch.testing.assert_close(exact, shapley(question), rtol=1e-4, atol=1e-4)


def test_where_units_are_knocked_out_it_is_the_shapley_value_too(ask_text):
    question = replace(ask_text(["a funny movie ."], kind="llama"), baseline=None)
    torch.testing.assert_close(KernelShap().signed(question), shapley(question), rtol=1e-4, atol=1e-4)


def test_sets_drawn_at_random_err_to_both_sides_and_less_the_more_there_are(ask_text):
    question = ask_text(["a funny movie ."])
    expected = KernelShap().signed(question)  # of all 128 sets, which is exact, as above
    few, many = (
        torch.stack([KernelShap(samples=samples, seed=seed).signed(question) for seed in range(12)]) - expected
        for samples in (20, 120)
    )
    assert many.abs().mean() < few.abs().mean() / 2
    assert many.mean(0).abs().max() < 0.25 * expected.abs().max()


def test_values_add_up_to_what_all_units_change(ask_text):
    question = ask_text(["a fast enjoyable movie . funny"])
    whole = value_of(question, 0, range(question.batch.valid.shape[1])) - value_of(question, 0, [])
    assert int(question.batch.valid.sum()) > 8  # more sets than samples
    assert abs(float(KernelShap().signed(question).sum()) - whole) < 1e-3


def test_a_single_unit_gets_the_whole_change(ask_text):
    question = ask_text(["movie"], gate_special=False)
    expected = value_of(question, 0, [0, 1, 2]) - value_of(question, 0, [])
    assert int(question.batch.valid.sum()) == 1
    assert abs(float(KernelShap().signed(question).sum()) - expected) < 1e-5


def test_scores_are_sizes_and_do_not_depend_on_batch_mates(ask_text):
    method, texts = KernelShap(samples=30), ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]
    scores = method(ask_text(texts))
    assert torch.equal(scores, method.signed(ask_text(texts)).abs())
    alone = method(ask_text(texts[:1]))
    torch.testing.assert_close(scores[:1, : alone.shape[1]], alone, rtol=1e-3, atol=1e-4)
    assert (scores[0, alone.shape[1] :] == 0).all()


def test_the_users_dice_stay_where_they_are_and_the_seed_decides(ask_text):
    question = ask_text(["a fast enjoyable movie . funny"])
    before, numpys = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = KernelShap(samples=30)(question)
    assert torch.equal(torch.get_rng_state(), before) and (np.random.get_state()[1] == numpys).all()
    torch.manual_seed(5)
    assert torch.equal(KernelShap(samples=30)(question), first)
    assert not torch.equal(KernelShap(samples=30, seed=1)(question), first)


def test_too_few_samples_for_the_units_are_reported(ask_text, caplog):
    KernelShap(samples=5)(ask_text(["a funny movie ."]))
    assert "kernel-shap draws 5 sets for 7 units, too few to tell them apart" in caplog.text


def test_settings_out_of_range_are_refused():
    with pytest.raises(SettingError, match="samples of kernel-shap must be at least 2, got 1"):
        KernelShap(samples=1)
    with pytest.raises(SettingError, match="batch_size of kernel-shap must be at least 1, got 0"):
        KernelShap(batch_size=0)
