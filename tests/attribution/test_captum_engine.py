"""Our gradients against Captum's, on the same models, sites and units."""

import sys

import pytest
import torch

from diffmask.attribution.gradient_input import GradientInput
from diffmask.attribution.integrated_gradients import IntegratedGradients
from diffmask.errors import DiffMaskError, ModelError
from diffmask.objective.captum_engine import captum_gradient_input, captum_methods
from diffmask.training.step import look

CASES = [(kind, depth) for kind, count in (("bert", 4), ("llama", 4), ("lstm", 2)) for depth in range(count)]


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize(("kind", "depth"), CASES)
def test_integrated_gradients_are_captums(kind, depth, unit, ask_text):
    question = ask_text(depth=depth, kind=kind, unit=unit, gate_special=unit == "token")
    own = IntegratedGradients(steps=8).signed(question)
    theirs = IntegratedGradients(steps=8, batch_size=7, engine="captum").signed(question)
    torch.testing.assert_close(own, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("baseline", ["zero", "question"])
@pytest.mark.parametrize(("kind", "depth"), CASES)
def test_gradient_times_input_is_captums(kind, depth, baseline, unit, ask_text):
    question = ask_text(depth=depth, kind=kind, unit=unit)
    theirs = GradientInput(baseline, engine="captum")(question)
    torch.testing.assert_close(GradientInput(baseline)(question), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", [IntegratedGradients, GradientInput])
def test_padding_on_the_left_is_no_matter(method, ask_text):
    question = ask_text(depth=1, kind="llama", padding_side="left")
    assert (~question.batch.valid[:, 0]).any()
    theirs = method(engine="captum")(question)
    torch.testing.assert_close(method()(question), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", [IntegratedGradients(steps=4, engine="captum"), GradientInput(engine="captum")])
def test_captum_works_where_gradients_are_off_and_in_half_precision(method, ask_text):
    question = ask_text(depth=2)
    expected = method(question)
    with torch.no_grad():
        assert torch.equal(method(question), expected)
    question.model.model.bfloat16()
    half = method(question)
    assert half.dtype == torch.float32 and not half.requires_grad and half.isfinite().all()


def test_captum_leaves_the_model_as_it_was(ask_text):
    question = ask_text(depth=2)
    model = question.model.model.train()
    IntegratedGradients(steps=4, engine="captum")(question)
    assert all(module.training for module in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_prediction_that_no_gradient_leads_back_from_is_refused_in_our_words(ask_text):
    question = ask_text()
    with question.model.frozen():
        seen = look(question.model, question.task, question.batch)
    question.model.model.forward = torch.no_grad()(question.model.model.forward)
    with question.model.frozen(), pytest.raises(ModelError, match="no gradient reaches site"):
        captum_gradient_input(seen, question.site_name, torch.zeros_like(seen.states[question.site_name]))


def test_without_captum_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(DiffMaskError, match=r"asks Captum, .* pip install 'diffmask\[captum\]'"):
        captum_methods()


@pytest.mark.parametrize(
    "method", ["integrated_gradients import IntegratedGradients", "gradient_input import GradientInput"]
)
def test_an_unknown_engine_is_refused(method, outside):
    complaint = outside(f"from diffmask.attribution.{method} as method; method(engine='captun')")
    assert "no engine named 'captun'; did you mean 'captum'? Known: own, captum" in complaint
