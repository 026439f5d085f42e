"""All importance of many documents at once, against one document at a time."""

import pytest
import torch

from attentive_toys import make_corpus, make_documents, make_model, make_task
from diffmask.attention.agreement import tally
from diffmask.attention.hidden_importance import shares
from diffmask.attention.importance import CUTS, KINDS, measure_importance, state_entropy
from diffmask.attention.input_importance import input_gradients, state_gradients
from diffmask.objective.ranking import kendall
from diffmask.tasks.documents import Document

TASK = make_task(make_corpus(24))
DOCUMENTS = [*make_documents(10, 4), Document("w3", 0)]


def sharp_model(**settings):
    model = make_model(TASK, **settings)
    with torch.no_grad():
        for weight in model.alignment.parameters():
            weight *= 6
    return model.double()


@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
def test_documents_together_give_what_each_gives_alone(projection):
    model = sharp_model(projection=projection)
    together = measure_importance(model, TASK, DOCUMENTS, batch_size=4)
    for row, document in enumerate(DOCUMENTS):
        alone = measure_importance(model, TASK, [document])
        for kind in KINDS:
            for name in ("every", "support", "null", "untied"):
                first, second = (getattr(found.agreement[kind], name) for found in (together, alone))
                assert torch.allclose(first[row], second[0], atol=1e-9, equal_nan=True)
            assert torch.allclose(together.entropy[kind][row], alone.entropy[kind][0], atol=1e-9, equal_nan=True)
        assert together.words[row] == document.length and together.support[row] == alone.support[0]


def test_agreement_is_that_of_attention_with_each_importance():
    model, batch = sharp_model(), TASK.collate([DOCUMENTS[0].text])
    found, words = measure_importance(model, TASK, DOCUMENTS), batch.valid[0]
    attention, size = model(**batch.inputs).attention[0][words], input_gradients(model, batch.inputs)[0][0][words]
    assert torch.equal(found.agreement["gradient-inputs"].every[0], kendall(attention.detach(), size))
    assert torch.equal(found.truncated[CUTS[0]]["gradient-inputs"][0], kendall(attention.detach(), size))
    share = size / size.sum()
    entropy = -(share * share.log()).sum() / torch.tensor(float(len(share))).log()
    assert torch.isclose(found.entropy["gradient-inputs"][0], entropy, atol=1e-6)


def test_sparse_attention_agrees_with_hidden_states_by_shared_zeros():
    found = measure_importance(sharp_model(projection="sparsemax"), TASK, make_documents(40, 8, longest=20))
    shared, null = (tally(getattr(found.agreement["gradient-states"], name)).mean for name in ("every", "null"))
    assert (found.support < found.words).any() and null > 0.4 and shared > 0.4


def test_a_document_of_one_word_is_undefined_and_counted():
    found = measure_importance(sharp_model(), TASK, DOCUMENTS)
    counted = tally(found.agreement["left-out-inputs"].every)
    assert counted.undefined >= 1 and found.attention_entropy[-1].isnan()


@pytest.mark.parametrize("encoder", ["bilstm", "projection"])
def test_the_entropy_of_hidden_states_is_their_mean(encoder):
    model = sharp_model(encoder=encoder)
    found = state_entropy(model, TASK, DOCUMENTS, batch_size=4)
    batch = TASK.collate([DOCUMENTS[1].text])
    each = []
    for sizes, _ in state_gradients(model, batch.inputs):
        share = shares(sizes, batch.valid)[batch.valid]
        each.append(-torch.xlogy(share, share).sum() / torch.tensor(float(len(share)), dtype=torch.double).log())
    assert torch.isclose(found[1], torch.stack(each).mean())
    assert found[-1].isnan()
    if encoder == "projection":  # a hidden state that sees its own word alone
        assert (found[:-1] == 0).all()


def test_half_precision_is_measured_in_single():
    model = make_model(TASK, projection="sparsemax").to(torch.bfloat16)
    found = measure_importance(model, TASK, DOCUMENTS[:3])
    assert all(found.entropy[kind].isfinite().all() for kind in ("gradient-inputs", "left-out-inputs"))
