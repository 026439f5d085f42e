"""The classifier against its formulas, written out."""

import math

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention import ALIGNMENTS, ENCODERS, PROJECTIONS
from diffmask.attention.classifier import AttentiveClassifier, make_classifier
from diffmask.attention.config import AttentiveConfig
from diffmask.errors import ModelError, SettingError, UnknownNameError

TASK = make_task(make_corpus(12))
TEXTS = ["class0 w1 w2 w3", "w4", "w5 class1 w6 w7 w8 w9 w1"]
BATCH = TASK.collate(TEXTS)
every = pytest.mark.parametrize("encoder", ENCODERS.names)


def entropy(weights, valid):
    return -torch.xlogy(weights, weights).sum(1) / valid.sum(1).double().log()


@every
@pytest.mark.parametrize("alignment", ALIGNMENTS.names)
@pytest.mark.parametrize("projection", PROJECTIONS.names)
def test_weights_add_up_over_the_words_and_nowhere_else(encoder, alignment, projection):
    model = make_model(TASK, encoder=encoder, alignment=alignment, projection=projection, layers=2)
    output = model(**BATCH.inputs)
    assert output.logits.shape == (3, 1)
    assert torch.allclose(output.attention.sum(1), torch.ones(3))
    assert (output.attention[~BATCH.valid] == 0).all()
    assert torch.equal(output.attended, BATCH.valid)
    assert output.attention[1].max() == 1  # a text of one word attends to it


def test_a_pass_is_what_the_formulas_say():
    model = make_model(TASK, alignment="additive")
    output, inner, outer = model(**BATCH.inputs), model.alignment.inner, model.alignment.outer
    for row, words in enumerate(BATCH.valid):
        hidden = output.hidden[row][words]
        scores = torch.stack([outer.weight[0] @ torch.tanh(inner.weight @ h + inner.bias) for h in hidden])
        weights = scores.exp() / scores.exp().sum()
        context = sum(weight * h for weight, h in zip(weights, hidden, strict=True))
        assert torch.allclose(output.attention[row][words], weights, atol=1e-6)
        assert torch.allclose(output.context[row], context, atol=1e-6)
        assert torch.allclose(output.logits[row], model.decoder(context), atol=1e-6)


def test_dot_attention_scores_by_the_query_over_the_root_of_the_width():
    model = make_model(TASK, alignment="dot")
    output = model(**BATCH.inputs)
    expected = (output.hidden * model.alignment.query).sum(-1) / math.sqrt(8)
    assert torch.allclose(output.scores, expected, atol=1e-6)


@every
def test_logits_are_the_attended_mean_of_what_each_word_would_say(encoder):
    model = make_model(TASK, encoder=encoder, labels=3)
    output = model(**BATCH.inputs)
    each = model.decoder(output.hidden)
    assert torch.allclose((output.attention.unsqueeze(-1) * each).sum(1), output.logits, atol=1e-5)


@every
def test_answers_do_not_depend_on_batch_mates_or_the_side_of_padding(encoder):
    model = make_model(TASK, encoder=encoder, layers=2)
    together = model(**BATCH.inputs).logits
    alone = torch.cat([model(**TASK.collate([text]).inputs).logits for text in TEXTS])
    left = model(**make_task(make_corpus(12), side="left").collate(TEXTS).inputs).logits
    assert torch.allclose(together, alone, atol=1e-6) and torch.allclose(together, left, atol=1e-6)


def test_given_attention_takes_the_place_of_the_models_own():
    model = make_model(TASK)
    own = model(**BATCH.inputs)
    same = model(**BATCH.inputs, attention=own.attention)
    uniform = BATCH.valid / BATCH.valid.sum(1, keepdim=True)
    other = model(**BATCH.inputs, attention=uniform)
    assert torch.equal(same.logits, own.logits)
    means = torch.stack([own.hidden[row][words].mean(0) for row, words in enumerate(BATCH.valid)])
    assert torch.allclose(other.context, means, atol=1e-6)
    assert torch.equal(other.scores, own.scores)


def test_attention_given_to_padding_and_ends_is_ignored():
    model = make_model(TASK)
    output = model(**BATCH.inputs, attention=torch.ones(BATCH.valid.shape))
    assert torch.equal(output.attention, BATCH.valid.float())


def test_gradients_flow_to_given_attention():
    model, weights = make_model(TASK), torch.rand(BATCH.valid.shape, requires_grad=True)
    model(**BATCH.inputs, attention=weights).logits.sum().backward()
    assert (weights.grad[BATCH.valid] != 0).all() and (weights.grad[~BATCH.valid] == 0).all()


def test_a_text_of_start_and_end_alone_is_answered_by_the_bias():
    model = make_model(TASK)
    output = model(torch.tensor([[2, 3, 0]]))
    assert (output.attention == 0).all() and torch.equal(output.logits[0], model.decoder.bias)


def test_without_a_mask_padding_is_what_has_number_zero():
    model = make_model(TASK)
    assert torch.equal(model(BATCH.inputs["input_ids"]).logits, model(**BATCH.inputs).logits)


@pytest.mark.parametrize(("join", "width"), [("none", 8), ("concat", 16), ("residual", 8)])
def test_hidden_states_take_the_embedding_in(join, width):
    model = make_model(TASK, join=join)
    output, plain = model(**BATCH.inputs), make_model(TASK)(**BATCH.inputs)
    assert output.hidden.shape[-1] == width == model.hidden_width
    inside, made = output.embedded, plain.hidden
    expected = {"none": made, "concat": torch.cat([made, inside], -1), "residual": made + inside}[join]
    assert torch.equal(output.hidden, expected)


def test_the_projection_encoder_sees_each_word_alone():
    model = make_model(TASK, encoder="projection")
    first, second = (model(**TASK.collate([text]).inputs).hidden[0, 2] for text in ("w1 w2 w3", "w9 w2 class1"))
    assert torch.equal(first, second)


def test_a_seed_makes_the_same_classifier_and_leaves_the_global_draws_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second, third = (make_model(TASK, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["decoder.weight"], third["decoder.weight"])


def test_embeddings_start_from_given_vectors_and_stay_if_frozen():
    vectors = torch.randn(len(TASK.vocabulary), 8)
    config = AttentiveConfig(len(TASK.vocabulary), width=8, hidden=4, freeze=True)
    model = make_classifier(config, vectors=vectors)
    assert torch.equal(model.embedding.weight, vectors) and not model.embedding.weight.requires_grad


def test_half_precision_works():
    model = make_model(TASK, projection="sparsemax").to(torch.bfloat16)
    output = model(**BATCH.inputs)
    assert output.logits.dtype == torch.bfloat16 and output.logits.isfinite().all()


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch.func's own
@pytest.mark.parametrize("projection", PROJECTIONS.names)
def test_torch_func_differentiates_from_the_hidden_states_on(projection):
    model = make_model(TASK, projection=projection).double()
    hidden = model(**BATCH.inputs).hidden[0, 1:5].detach()

    def answer(hidden):
        return model.decoder(model.project(model.alignment(hidden), None) @ hidden)[0]

    by_func = torch.func.vmap(torch.func.grad(answer))(hidden.expand(2, -1, -1))
    assert torch.allclose(by_func[1], torch.autograd.functional.jacobian(answer, hidden))


def test_torch_func_goes_through_the_transformer():
    model = make_model(TASK, encoder="transformer", alignment="dot")
    embedded, real = model.embedding(BATCH.inputs["input_ids"]).detach(), BATCH.inputs["attention_mask"].bool()

    def length(embedded):
        return model.encode(embedded, real).norm(dim=-1)

    assert torch.func.jacrev(length)(embedded).shape == (*embedded.shape[:2], *embedded.shape)


def test_a_dot_query_drawn_by_default_starts_far_more_uniform_than_one_drawn_from_a_normal():
    vectors = torch.randn(len(TASK.vocabulary), 300, generator=torch.Generator().manual_seed(0)) * 0.3
    config = {"words": len(TASK.vocabulary), "hidden": 150, "alignment": "dot"}
    spread = {}
    for query in ("default", "normal"):
        with torch.no_grad():
            output = make_classifier(AttentiveConfig(**config, query=query), vectors=vectors)(**BATCH.inputs)
        long = BATCH.valid.sum(1) > 1
        spread[query] = float((1 - entropy(output.attention, BATCH.valid)[long]).mean())
        assert output.scores[BATCH.valid].std() < 0.3
    assert spread["default"] < 1e-6 and spread["normal"] > 100 * spread["default"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"sparsity": 1.0, "projection": "sparsegen"}, SettingError, "must be a number below 1, got 1.0"),
        ({"sparsity": 0.5}, SettingError, "is for projection = sparsegen, got softmax"),
        ({"labels": 0}, SettingError, "labels must be at least 1, got 0"),
        ({"layers": 0}, SettingError, "layers must be at least 1"),
        ({"dropout": 1.0}, SettingError, r"dropout must lie in \[0, 1\)"),
        ({"join": "residual", "hidden": 5}, SettingError, "width 10 to embeddings of width 8"),
        ({"encoder": "bilstmm"}, UnknownNameError, "did you mean 'bilstm'"),
        ({"alignment": "dott"}, UnknownNameError, "did you mean 'dot'"),
        ({"projection": "softmx"}, UnknownNameError, "did you mean 'softmax'"),
    ],
)
def test_a_classifier_that_cannot_be_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        make_model(TASK, **settings)


def test_a_wrong_choice_is_named(outside):
    code = "from diffmask.attention.config import AttentiveConfig\nAttentiveConfig(9, join='resid')"
    assert "classifier.join: no choice named 'resid'; did you mean 'residual'" in outside(code)


def test_vectors_of_another_vocabulary_are_refused():
    with pytest.raises(SettingError, match="a row per word"):
        AttentiveClassifier(AttentiveConfig(10, width=8), torch.zeros(11, 8))


def test_a_mask_per_query_and_key_is_refused():
    with pytest.raises(ModelError, match="use removal = baseline"):
        make_model(TASK)(BATCH.inputs["input_ids"], torch.zeros(3, 1, 9, 9))
