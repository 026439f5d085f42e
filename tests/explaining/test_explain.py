import math

import pytest
import torch

from diffmask.errors import DataError, InfeasibleError, ModelError, SettingError
from diffmask.explaining.certify import certify, highest
from diffmask.explaining.explain import explain
from diffmask.training.fit import Fit, fit
from toys import EVIDENCE, Evidence, evidence_model, evidence_task, small_recipe


@pytest.fixture(scope="module")
def fitted():
    return fit(evidence_model(), evidence_task(), small_recipe(steps=300))


def ruined(fitted):
    """The same fit with a probe that drops nearly everything at the last depth."""
    from copy import deepcopy

    probe = deepcopy(fitted.probe)
    with torch.no_grad():
        probe.voter(2).last.bias.sub_(12)
    return Fit(
        fitted.model,
        fitted.task,
        probe,
        *(getattr(fitted, n) for n in ("config", "scores", "restarts", "history", "fingerprint")),
    )


def masked_logit(explanation, tokens, baseline_evidence):
    """Add up by hand what the model sees when only the kept units are there."""
    seen = [
        float(EVIDENCE[t]) if k else baseline_evidence for t, k in zip(tokens, explanation.kept.tolist(), strict=True)
    ]
    return sum(seen)


def kl(a, b):
    p, q = 1 / (1 + math.exp(-a)), 1 / (1 + math.exp(-b))
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_the_verified_divergence_is_the_one_computed_by_hand(fitted):
    task, baseline = fitted.task, fitted.model.model.answer(fitted.probe.baseline(2)).item()
    for row, explanation in zip(task.validation[:20], explain(fitted, task.validation[:20]), strict=True):
        tokens = task.inputs["tokens"][row][task.valid[row]].tolist()
        original = sum(float(EVIDENCE[t]) for t in tokens)
        expected = kl(original, masked_logit(explanation, tokens, baseline))
        assert explanation.verification.divergence == pytest.approx(expected, abs=1e-4)
        assert explanation.verified == (explanation.verification.divergence <= 0.1)


def test_explaining_costs_one_forward_pass_and_one_to_verify(fitted):
    model = fitted.model.model
    model.passes = 0
    explain(fitted, fitted.task.validation[:8])
    assert model.passes == 2
    explain(fitted, fitted.task.validation[:8], verify=False)
    assert model.passes == 3


def test_what_was_not_measured_is_not_claimed(fitted):
    explanation = explain(fitted, fitted.task.validation[:1], verify=False)[0]
    assert explanation.verification is None and not explanation.verified


def test_scores_do_not_depend_on_batch_mates_or_padding(fitted):
    together = explain(fitted, fitted.task.validation[:10])
    alone = [explain(fitted, [row])[0] for row in fitted.task.validation[:10]]
    assert all(torch.allclose(a.scores, b.scores, atol=1e-6) for a, b in zip(together, alone, strict=True))


def test_an_explanation_has_no_padding_in_it(fitted):
    for row, explanation in zip(fitted.task.validation[:10], explain(fitted, fitted.task.validation[:10]), strict=True):
        assert len(explanation.units) == int(fitted.task.valid[row].sum())


@pytest.mark.parametrize("depth", [3, -4])
def test_a_depth_that_does_not_exist_is_refused_by_name(fitted, depth):
    with pytest.raises(SettingError, match=f"depth {depth} does not exist: this probe has 3"):
        explain(fitted, fitted.task.validation[:1], depth=depth)


@pytest.mark.parametrize(("name", "depth"), [("embedding", 0), ("block 1", 2)])
def test_a_depth_may_be_the_name_of_its_site(fitted, name, depth):
    for how in (explain, certify):
        (named,), (numbered,) = (how(fitted, fitted.task.validation[:1], depth=d) for d in (name, depth))
        assert named.depth == depth and named.depths[depth] == name
        assert torch.equal(named.kept, numbered.kept) and named.verification == numbered.verification


def test_a_name_that_is_no_depth_gets_the_nearest(fitted):
    with pytest.raises(SettingError, match=r"no depth named 'block 3'; did you mean 'block \d'"):
        explain(fitted, fitted.task.validation[:1], depth="block 3")


def test_no_examples_is_an_error(fitted):
    with pytest.raises(DataError, match="nothing to explain"):
        explain(fitted, [])


@pytest.mark.parametrize("how", [explain, certify])
def test_a_score_that_is_nan_is_not_an_explanation(fitted, how):
    wild = ruined(fitted)
    with torch.no_grad():
        wild.probe.voter(0).last.bias.fill_(math.nan)
    with pytest.raises(ModelError, match=r"the probe's scores of example 0 are NaN.*run the model in float32"):
        how(wild, [0, 1])


def test_a_nan_prediction_is_not_explained(fitted):
    class Broken(Evidence):
        def forward(self, tokens, valid):
            return super().forward(tokens, valid) * torch.nan

    broken = Fit(evidence_model(Broken()), fitted.task, fitted.probe, fitted.config, [], [], [], "")
    with pytest.raises(ModelError, match="NaN or infinite"):
        explain(broken, fitted.task.validation[:2])


@pytest.mark.parametrize("how", [explain, certify])
def test_a_prediction_that_a_mask_turns_into_nan_is_not_explained(fitted, how):
    model = Evidence()
    model.answer.register_forward_hook(
        lambda module, args, output: output.masked_fill((args[0].amax(-1, keepdim=True) < 1), torch.nan)
    )
    broken = Fit(evidence_model(model), fitted.task, ruined(fitted).probe, fitted.config, [], [], [], "")
    with pytest.raises(ModelError, match="is NaN or infinite when only the kept units are there for"):
        how(broken, fitted.task.validation[:10])


def test_certify_repairs_masks_that_break_the_margin(fitted):
    bad, rows = ruined(fitted), fitted.task.validation[:50]
    assert not all(explanation.verified for explanation in explain(bad, rows))
    certified = certify(bad, rows)
    assert all(explanation.verified and explanation.certified for explanation in certified)
    for before, after in zip(explain(bad, rows), certified, strict=True):
        assert (after.kept | ~before.kept).all()  # units are only added


def test_certify_leaves_masks_that_hold_alone(fitted):
    rows = fitted.task.validation[:50]
    for before, after in zip(explain(fitted, rows), certify(fitted, rows), strict=True):
        if before.verified:
            assert torch.equal(before.kept, after.kept)


def test_certify_takes_at_most_log_n_plus_two_masked_passes(fitted):
    bad, model = ruined(fitted), fitted.model.model
    model.passes = 0
    certify(bad, fitted.task.validation[:50])
    assert model.passes - 1 <= math.ceil(math.log2(6)) + 2


def test_certify_refuses_a_model_that_does_not_repeat_itself(fitted):
    class Noisy(Evidence):
        def forward(self, tokens, valid):
            return super().forward(tokens, valid) + 5 * torch.randn(len(tokens))

    noisy = Fit(evidence_model(Noisy()), fitted.task, fitted.probe, fitted.config, [], [], [], "")
    with pytest.raises(InfeasibleError, match="even with every unit kept"):
        certify(noisy, fitted.task.validation[:50])


def test_highest_keeps_the_best_scores_and_breaks_ties_by_order():
    scores = torch.tensor([[0.5, 0.9, 0.5, 0.1], [0.3, 0.2, 0.9, 0.8]])
    valid = torch.tensor([[True, True, True, True], [True, True, False, False]])
    assert highest(scores, valid, torch.tensor([2, 1])).tolist() == [
        [True, True, False, False],
        [True, False, False, False],
    ]
