"""An adversary that is trained to attend elsewhere, with its encoder free or not."""

from copy import deepcopy

import pytest
import torch

from attentive_toys import make_corpus, make_model, make_task
from diffmask.attention import trained_adversary
from diffmask.attention.attacks import jensen_shannon
from diffmask.attention.config import AttentiveTraining
from diffmask.attention.evidence import gather_evidence
from diffmask.attention.train import train_attentive
from diffmask.attention.trained_adversary import AdversaryConfig, measure_apart, train_adversary
from diffmask.errors import DataError, ModelError, SettingError
from diffmask.tasks.documents import Document

CORPUS = make_corpus(96)
TASK = make_task(CORPUS)


@pytest.fixture(scope="module")
def base():
    model = make_model(TASK)
    train_attentive(model, TASK, CORPUS.train, CORPUS.dev, AttentiveTraining(epochs=12, learning_rate=0.02))
    return model


def train(base, **settings):
    settings = {"epochs": 8, "learning_rate": 0.02, "patience": 0, **settings}
    return train_adversary(base, TASK, CORPUS.train, AdversaryConfig(**settings))


def test_a_frozen_adversary_moves_its_alignment_alone(base):
    before = {name: weight.clone() for name, weight in base.state_dict().items()}
    found = train(base, frozen=True, strength=2.0, epochs=30)
    for name, weight in found.state_dict().items():
        assert torch.equal(base.state_dict()[name], before[name])
        assert torch.equal(weight, before[name]) != name.startswith("alignment")
    assert measure_apart(found, base, TASK, CORPUS.test).divergence > 0.2


def test_a_free_adversary_answers_alike_and_attends_elsewhere(base):
    found = measure_apart(train(base, strength=0.3, epochs=25), base, TASK, CORPUS.test)
    frozen = measure_apart(train(base, strength=0.3, frozen=True), base, TASK, CORPUS.test)
    assert found.distance < 0.3 and found.divergence > 0.1
    assert found.base_accuracy == frozen.base_accuracy > 0.9


def test_without_reward_the_answers_are_what_is_learned(base):
    kind = measure_apart(train(base, strength=0.0, epochs=25), base, TASK, CORPUS.test)
    wild = measure_apart(train(base, strength=5.0, epochs=25), base, TASK, CORPUS.test)
    assert kind.distance < 0.2 and kind.divergence < wild.divergence


def test_how_far_they_are_apart_is_what_the_evidence_says(base):
    other = make_model(TASK, seed=3)
    found = measure_apart(other, base, TASK, CORPUS.test, batch_size=7)
    first, second = (gather_evidence(model, TASK, CORPUS.test) for model in (other, base))
    assert found.divergence == pytest.approx(float(jensen_shannon(first.attention, second.attention).mean()), abs=1e-5)
    assert found.distance == pytest.approx(float((first.probability - second.probability).abs().mean()), abs=1e-5)
    assert found.accuracy == pytest.approx(float((first.decided == first.labels).float().mean()))


@pytest.mark.parametrize("projection", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("frozen", [True, False])
def test_sparse_attention_gives_finite_losses(projection, frozen):
    model = make_model(TASK, projection=projection)
    found = train(model, frozen=frozen, epochs=1)
    assert all(weight.isfinite().all() for weight in found.state_dict().values())


def test_the_same_seed_trains_the_same_adversary(base):
    first, second = (train(base, epochs=1, frozen=True).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("patience", "epochs", "best"), [(2, 4, 1), (3, 6, 4), (0, 6, 4)])
def test_training_ends_when_patience_is_out_with_the_weights_of_the_lowest_loss(
    base, monkeypatch, patience, epochs, best
):
    train_epoch, losses, weights = trained_adversary._train_epoch, iter([3.0, 2.0, 2.5, 2.0, 1.0, 4.0]), []

    def pretended(model, *others):
        train_epoch(model, *others)
        weights.append(deepcopy(model.state_dict()))
        return next(losses)

    monkeypatch.setattr(trained_adversary, "_train_epoch", pretended)
    found = train(base, epochs=6, patience=patience)
    assert len(weights) == epochs
    assert all(torch.equal(weight, weights[best][name]) for name, weight in found.state_dict().items())


def test_what_cannot_be_attacked_is_refused(base):
    with pytest.raises(DataError, match="got none"):
        train_adversary(base, TASK, ())
    with pytest.raises(DataError, match="adversary's document 1 of 1 has no words"):
        train_adversary(base, TASK, [Document("", 0)])
    with pytest.raises(DataError, match="no documents to measure"):
        measure_apart(base, base, TASK, [])
    with pytest.raises(ModelError, match="3 classes"):
        train(make_model(TASK, labels=3), epochs=1)
    with pytest.raises(SettingError, match="at least 0, got -1"):
        AdversaryConfig(strength=-1.0)
