"""A model whose blocks are compiled is explained as the model it was, and is that model again afterwards."""

from contextlib import nullcontext

import pytest
import torch

from diffmask.explaining.explain import explain
from diffmask.models.adapter import Adapter
from diffmask.models.adapting import adapt
from diffmask.models.sites import replace, resume
from diffmask.tasks.text import TextClassification
from diffmask.training.fit import fit
from diffmask.training.step import look
from tiny_text import TEXTS, make_model, make_tokenizer
from toys import evidence_model, evidence_task, small_recipe


def looked(backend, kind="bert"):
    model, tokenizer = make_model(kind), make_tokenizer()
    adapter, task = adapt(model, tokenizer), TextClassification(tokenizer, TEXTS, TEXTS)
    batch = task.collate(TEXTS)
    plain = look(adapter, task, batch)
    with adapter.frozen(), adapter.compiled(backend is not None, backend or "eager"):
        seen = look(adapter, task, batch)
        site = adapter.sites[3]
        other = seen.states[site.name] + 1
        with torch.no_grad(), resume(site, other, seen.states):
            resumed = adapter(batch).logits
        with torch.no_grad(), replace(site, other):
            replaced = adapter(batch).logits
        state = seen.states[site.name].clone().requires_grad_(True)
        with resume(site, state, seen.states):
            adapter(batch).logits.sum().backward()
    assert not any("forward" in vars(module) for module in model.modules())
    return plain, seen, resumed, replaced, state.grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_is_read_and_replaced_as_it_is(backend):
    plain, seen, resumed, replaced, slope = looked(backend)
    for name in seen.states:
        torch.testing.assert_close(seen.states[name], plain.states[name])
    torch.testing.assert_close(resumed, replaced)
    assert not torch.allclose(resumed, seen.original["label"].raw)
    torch.testing.assert_close(slope, looked(None)[4])


def test_fitting_and_explaining_compile_the_model_if_asked_to(monkeypatch):
    asked = []
    monkeypatch.setattr(Adapter, "compiled", lambda self, wanted=True: asked.append(wanted) or nullcontext())
    for wanted in (True, False):
        fitted = fit(evidence_model(), evidence_task(), small_recipe(steps=1, compile=wanted))
        explain(fitted, fitted.task.validation[:4], compile=wanted)
    assert asked == [True, True, False, False]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_compiled_for_this_machine_says_the_same():
    model, tokenizer = make_model("bert"), make_tokenizer()
    adapter, task = adapt(model, tokenizer), TextClassification(tokenizer, TEXTS, TEXTS)
    plain = look(adapter, task, task.collate(TEXTS))
    with adapter.frozen(), adapter.compiled():
        seen = look(adapter, task, task.collate(TEXTS))
    for name in seen.states:
        torch.testing.assert_close(seen.states[name], plain.states[name], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(seen.original["label"].raw, plain.original["label"].raw, rtol=1e-4, atol=1e-4)
