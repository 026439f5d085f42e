"""What every word says is enough to answer for any attention."""

import pytest
import torch

from attentive_toys import make_corpus, make_documents, make_model, make_task
from diffmask.attention.evidence import gather_evidence
from diffmask.attention.importance import measure_importance, state_entropy
from diffmask.errors import DataError, ModelError

CORPUS = make_corpus(24)
TASK = make_task(CORPUS)
DOCUMENTS = make_documents(9, 5)


@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_margin_is_the_models_own_whatever_the_batches(labels, side):
    task = make_task(CORPUS, side=side)
    model = make_model(task, labels=labels, projection="sparsemax")
    found = gather_evidence(model, task, DOCUMENTS, batch_size=4)
    for row, document in enumerate(DOCUMENTS):
        logits = model(**task.collate([document.text]).inputs).logits[0].double()
        margin = logits[0] if labels == 1 else logits[1] - logits[0]
        assert torch.isclose(found.margin[row], margin, atol=1e-6)
        assert found.attended[row].sum() == document.length and found.attended[row, : document.length].all()


def test_another_attention_is_answered_for_as_the_model_would():
    model = make_model(TASK)
    found, batch = gather_evidence(model, TASK, DOCUMENTS), TASK.collate([DOCUMENTS[0].text])
    weights = torch.rand(DOCUMENTS[0].length)
    given = torch.zeros(batch.valid.shape).masked_scatter(batch.valid, weights / weights.sum())
    expected = model(**batch.inputs, attention=given).logits[0, 0].double()
    padded = torch.zeros_like(found.attention)
    padded[0, : len(weights)] = weights.double() / weights.sum()
    assert torch.isclose(found.weigh(padded)[0], expected, atol=1e-6)


def test_documents_seed_their_own_draws():
    model = make_model(TASK)
    together = gather_evidence(model, TASK, DOCUMENTS)
    alone = gather_evidence(model, TASK, DOCUMENTS[3:4])
    assert alone.seeds[0] == together.seeds[3] and len(set(together.seeds)) == len(DOCUMENTS)


def test_the_model_is_left_as_it_was():
    model = make_model(TASK).train()
    gather_evidence(model, TASK, DOCUMENTS)
    assert model.training and model.layers[0].ahead.training and all(w.requires_grad for w in model.parameters())


def test_more_than_two_classes_are_refused():
    with pytest.raises(ModelError, match="this classifier has 3 classes: train one with labels = 1 or 2"):
        gather_evidence(make_model(TASK, labels=3), TASK, DOCUMENTS)


@pytest.mark.parametrize("measure", [gather_evidence, measure_importance, state_entropy])
def test_nothing_is_measured_on_no_documents(measure):
    with pytest.raises(DataError, match="there are no documents to measure: give at least one"):
        measure(make_model(TASK), TASK, [])
