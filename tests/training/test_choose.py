"""A margin is chosen under the conditions of the fit."""

import torch

from diffmask.training import choose as choose_file
from diffmask.training.choose import choose
from diffmask.training.fit import fit
from diffmask.training.validate import validate, validation_batches
from toys import evidence_model, evidence_task, small_recipe


def test_the_model_computes_in_the_precision_of_the_fit(monkeypatch):
    fitted, seen = fit(evidence_model(), evidence_task(), small_recipe(steps=2, precision="bf16")), []

    def watched(model, *given):
        seen.append(model.precision)
        return validate(model, *given)

    monkeypatch.setattr(choose_file, "validate", watched)
    choose(fitted, 0.2)
    assert set(seen) == {torch.bfloat16} and fitted.model.precision is None


def test_validation_examples_of_like_length_share_a_batch(monkeypatch):
    task, asked = evidence_task(), []
    lengths = {row: 3 - row % 3 for row in task.validation}
    monkeypatch.setattr(task, "lengths", lambda rows: [lengths[row] for row in rows])
    collate = task.collate
    monkeypatch.setattr(task, "collate", lambda rows: asked.extend(rows) or collate(rows))
    list(validation_batches(task, 90, 8, "cpu"))
    assert len(asked) == min(90, len(task.validation))
    assert [lengths[row] for row in asked] == sorted(lengths[row] for row in asked)
