"""Training: it learns, repeats itself, keeps the best epoch, and says what it cannot use."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention import ENCODERS, PROJECTIONS
from diffmask.attention.config import AttentiveTraining
from diffmask.attention.quality import Quality, measure_quality
from diffmask.attention.train import _groups, predict, train_attentive
from diffmask.errors import DataError, ModelError, SettingError
from diffmask.tasks.documents import Document, DocumentTask
from diffmask.tasks.words import Vocabulary

CORPUS = make_corpus(96)
TASK = make_task(CORPUS)
QUICK = AttentiveTraining(epochs=5, batch_size=16, learning_rate=0.02)


def train(model, config=QUICK, corpus=CORPUS, task=TASK, **settings):
    return train_attentive(model, task, corpus.train, corpus.dev, config, **settings)


@pytest.mark.parametrize("encoder", ENCODERS.names)
@pytest.mark.parametrize("projection", PROJECTIONS.names)
def test_every_encoder_and_projection_learns_the_word_that_gives_the_class_away(encoder, projection):
    model = make_model(TASK, encoder=encoder, projection=projection, width=16, hidden=8)
    train(model)
    assert measure_quality(*predict(model, TASK, CORPUS.test)).accuracy > 0.9


@pytest.mark.parametrize("terms", [{}, {"tying": 1.0}, {"mlm": 0.3}, {"tying": 0.5, "mlm": 0.3}])
def test_a_seed_gives_the_same_weights_and_another_seed_others(terms):
    config = replace(QUICK, epochs=2, **terms)
    runs = [make_model(TASK, freeze=True, dropout=0.2) for _ in range(3)]
    found = [train(model, replace(config, seed=seed)) for model, seed in zip(runs, (0, 0, 1), strict=True)]
    first, second, third = (model.state_dict() for model in runs)
    assert all(torch.equal(first[name], second[name]) for name in first) and found[0] == found[1]
    assert not torch.equal(first["decoder.weight"], third["decoder.weight"])


@pytest.mark.parametrize("terms", [{}, {"tying": 0.1}, {"mlm": 0.1}])
def test_bfloat16_learns_as_well_and_leaves_float32_weights(terms):
    model = make_model(TASK, freeze=True, width=16, hidden=8)
    found = train(model, replace(QUICK, bf16=True, **terms))
    exact = train(make_model(TASK, freeze=True, width=16, hidden=8), replace(QUICK, **terms))
    assert measure_quality(*predict(model, TASK, CORPUS.test)).accuracy > 0.9
    assert all(weight.dtype == torch.float32 for weight in model.parameters())
    assert found.losses != exact.losses and found.losses == pytest.approx(exact.losses, rel=0.2, abs=0.05)


def entropy_after_training(query):
    corpus = make_corpus(256)
    task = make_task(corpus)
    model = make_model(task, width=64, hidden=32, alignment="dot", query=query)
    found = train(model, AttentiveTraining(epochs=6, earliest=5), corpus, task)
    with torch.no_grad():
        output = model(**task.collate([document.text for document in corpus.test]).inputs)
    count, weights = output.attended.sum(1), output.attention
    assert found.best.accuracy > 0.95
    return float((-torch.xlogy(weights, weights).sum(1) / count.log()).mean())


def test_dot_attention_drawn_by_default_stays_uniform_in_training_and_drawn_from_a_normal_does_not():
    # Both classify as well: with uniform attention the encoder alone carries the word's meaning to every state.
    assert entropy_after_training("default") > 0.999
    assert entropy_after_training("normal") < 0.9


def test_training_leaves_the_global_draws_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    train(make_model(TASK), replace(QUICK, epochs=1))
    assert torch.equal(torch.rand(1), expected)


def test_the_best_epoch_on_dev_is_kept_and_never_the_first():
    model = make_model(TASK)
    found = train(model)
    assert found.epoch >= 1 and found.best.auc == max(quality.auc for quality in found.dev[1:])
    assert measure_quality(*predict(model, TASK, CORPUS.dev)) == found.best
    assert not model.training


def test_the_weights_that_are_kept_are_those_of_the_best_epoch_then(monkeypatch):
    model, weights, areas = make_model(TASK), [], iter([0.5, 0.9, 0.7, 0.6])

    def pretended(logits, labels):
        weights.append(deepcopy(model.state_dict()))
        return Quality(0.5, 0.5, next(areas))

    monkeypatch.setattr("diffmask.attention.train.measure_quality", pretended)
    assert train(model, replace(QUICK, epochs=4)).epoch == 1
    assert all(torch.equal(weight, weights[1][name]) for name, weight in model.state_dict().items())
    assert not torch.equal(weights[1]["decoder.weight"], weights[3]["decoder.weight"])


def test_the_only_epoch_is_kept():
    assert train(make_model(TASK), replace(QUICK, epochs=1)).epoch == 0


def test_training_stops_when_patience_is_out():
    found = train(make_model(TASK), replace(QUICK, epochs=50, patience=2))
    assert len(found.dev) == found.epoch + 3 < 50


def test_tying_brings_hidden_states_close_to_frozen_embeddings():
    def distance(delta):
        model = make_model(TASK, freeze=True)
        train(model, replace(QUICK, tying=delta))
        output = model(**TASK.collate([document.text for document in CORPUS.test]).inputs)
        return float((output.hidden - output.embedded)[output.attended].square().sum(-1).mean().detach())

    assert distance(5.0) < 0.8 * distance(0.0)


def test_mlm_makes_hidden_words_less_surprising():
    heard = []
    train(
        make_model(TASK, freeze=True),
        replace(QUICK, epochs=8, mlm=1.0),
        progress=lambda step, steps, loss: heard.append(float(loss.mlm.detach())),
    )
    assert sum(heard[-10:]) < sum(heard[:10])


def test_frozen_embeddings_stay_and_padding_stays_zero():
    frozen, free = make_model(TASK, freeze=True), make_model(TASK)
    before = frozen.embedding.weight.clone(), free.embedding.weight.clone()
    train(frozen), train(free)
    assert torch.equal(frozen.embedding.weight, before[0])
    assert not torch.equal(free.embedding.weight, before[1]) and (free.embedding.weight[0] == 0).all()


def test_everything_but_the_attention_is_decayed():
    model = make_model(TASK)
    others, attention = _groups(model, replace(QUICK, weight_decay=0.5))
    assert (others["weight_decay"], attention["weight_decay"]) == (0.5, 0.0)
    assert set(attention["params"]) == set(model.alignment.parameters())
    assert set(others["params"]) == set(model.parameters()) - set(attention["params"])


def test_the_attention_has_its_own_rate():
    model = make_model(TASK)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    train(model, replace(QUICK, epochs=1, attention_rate=1e-9, weight_decay=10.0))
    change = {name: float((weight - before[name]).abs().max().detach()) for name, weight in model.named_parameters()}
    assert change["alignment.outer.weight"] < 1e-8 < change["decoder.weight"]


def test_three_classes_are_learned():
    corpus = make_corpus(96, classes=3)
    task = make_task(corpus)
    found = train(make_model(task, labels=3, width=16, hidden=8), replace(QUICK, select="accuracy"), corpus, task)
    assert found.best.accuracy > 0.8 and found.best.auc is None


def test_predictions_come_in_the_order_of_the_documents():
    model = make_model(TASK)
    logits, labels = predict(model, TASK, CORPUS.dev, batch_size=7)
    alone = torch.cat([predict(model, TASK, [document])[0] for document in CORPUS.dev])
    assert torch.allclose(logits, alone, atol=1e-6)
    assert labels.tolist() == [document.label for document in CORPUS.dev]


def one_class(split):
    return replace(CORPUS, **{split: tuple(d for d in getattr(CORPUS, split) if d.label == 1)})


@pytest.mark.parametrize(("split", "name"), [("train", "training"), ("dev", "dev")])
def test_documents_of_one_class_are_refused(split, name):
    with pytest.raises(DataError, match=f"the {name} documents have only label 1"):
        train(make_model(TASK), corpus=one_class(split))
    with pytest.raises(DataError, match=f"the {name} documents have nothing"):
        train(make_model(TASK), corpus=replace(CORPUS, **{split: ()}))


@pytest.mark.parametrize(("split", "name"), [("train", "training"), ("dev", "dev")])
def test_a_document_without_words_is_refused_and_named(split, name):
    documents = (*getattr(CORPUS, split)[:4], Document(" ", 0))
    with pytest.raises(DataError, match=f"{name} document 5 of 5 has no words"):
        train(make_model(TASK), corpus=replace(CORPUS, **{split: documents}))


def test_documents_of_one_word_are_trained_on():
    single = tuple(Document(f"class{label}", label) for label in (0, 1))
    found = train(make_model(TASK), replace(QUICK, epochs=1), replace(CORPUS, train=CORPUS.train + single))
    assert found.losses[0] > 0


def test_labels_the_model_does_not_know_are_refused():
    with pytest.raises(DataError, match=r"label 2 and the model knows 2 classes.* labels = 3"):
        train(make_model(TASK), corpus=make_corpus(12, classes=3))


def test_mlm_without_a_mask_in_the_vocabulary_or_with_free_embeddings_is_refused():
    config = replace(QUICK, mlm=1.0)
    with pytest.raises(SettingError, match="freeze = True"):
        train(make_model(TASK), config)
    bare = DocumentTask(Vocabulary(d.text for d in CORPUS.train), [], [])
    with pytest.raises(SettingError, match="does not have"):
        train(make_model(bare, freeze=True), config, task=bare)


@pytest.mark.parametrize("term", ["tying", "mlm"])
def test_terms_that_compare_widths_refuse_concat_at_once(term):
    with pytest.raises(SettingError, match=f"{term} compares"):
        train(make_model(TASK, join="concat", freeze=True), replace(QUICK, **{term: 1.0}))


def test_a_loss_that_is_no_number_is_an_error():
    model = make_model(TASK)
    model.decoder.weight.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="lower learning_rate"):
        train(model)


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"learning_rate": 0.0}, {"tying": -1.0}, {"mlm": -0.1}, {"clip": 0.0}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(SettingError, match=next(iter(bad))):
        AttentiveTraining(**bad)


def test_areas_are_for_two_classes():
    with pytest.raises(SettingError, match="select by accuracy or f1"):
        train(make_model(TASK, labels=3))
