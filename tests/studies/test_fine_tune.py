from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from diffmask.errors import DataError, ModelError, SettingError
from diffmask.studies.fine_tune import FineTuneConfig, fine_tune

IDS = torch.randint(1, 8, (64, 5), generator=torch.Generator().manual_seed(0))
LABELS = (IDS == 3).any(1).long()
QUICK = FineTuneConfig(epochs=6, batch_size=16, learning_rate=5e-3)


def encode(rows):
    return {"input_ids": IDS[rows], "labels": LABELS[rows]}


def tiny_bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(vocab_size=8, max_position_embeddings=8, num_labels=2, **sizes))


def weights(model):
    return torch.cat([weight.flatten() for weight in model.state_dict().values()])


class Drift(nn.Module):
    """Its one weight falls with every step, so that it tells how many steps were taken."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, scale):
        return SimpleNamespace(loss=(self.weight * scale).mean())


def drift(config, **more):
    model = Drift()
    return model, fine_tune(model, lambda rows: {"scale": torch.ones(len(rows))}, 8, config, **more)


def test_a_model_learns():
    model = tiny_bert()
    found = fine_tune(model, encode, len(IDS), FineTuneConfig(epochs=20, batch_size=16, learning_rate=5e-3))
    assert len(found.losses) == 20
    assert found.losses[-1] < 0.5 * found.losses[0]
    assert not model.training


def test_the_same_seed_gives_the_same_weights_whatever_was_drawn_before():
    first, second, other = tiny_bert(), tiny_bert(), tiny_bert()
    torch.manual_seed(1)
    fine_tune(first, encode, len(IDS), QUICK)
    torch.manual_seed(2)
    fine_tune(second, encode, len(IDS), QUICK)
    fine_tune(other, encode, len(IDS), FineTuneConfig(epochs=6, batch_size=16, learning_rate=5e-3, seed=1))
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    model = tiny_bert()
    torch.manual_seed(3)
    fine_tune(model, encode, len(IDS), QUICK)
    assert torch.equal(torch.rand(3), expected)


def test_the_first_of_the_best_epochs_is_restored():
    scores, seen = iter([0.5, 0.9, 0.9, 0.1]), []

    def evaluate():
        assert not model.training and not torch.is_grad_enabled()
        seen.append(model.weight.item())
        return next(scores)

    model = Drift()
    config = FineTuneConfig(epochs=4, batch_size=4, learning_rate=0.1)
    found = fine_tune(model, lambda rows: {"scale": torch.ones(len(rows))}, 8, config, evaluate=evaluate)
    assert (found.epoch, found.score, found.scores) == (1, 0.9, (0.5, 0.9, 0.9, 0.1))
    assert model.weight.item() == seen[1] != seen[3]


def test_without_a_score_the_last_epoch_is_kept():
    _, found = drift(FineTuneConfig(epochs=3, batch_size=4))
    assert (found.epoch, found.score) == (2, None)


def test_progress_hears_every_step():
    heard = []
    drift(FineTuneConfig(epochs=3, batch_size=4), progress=lambda step, steps, loss: heard.append((step, steps)))
    assert heard == [(step, 6) for step in range(1, 7)]


def test_every_row_is_seen_once_an_epoch():
    rows = []
    fine_tune(tiny_bert(), lambda batch: rows.extend(batch) or encode(batch), 32, FineTuneConfig(epochs=2))
    assert sorted(rows) == sorted([*range(32), *range(32)])


def test_rows_of_like_length_share_a_batch_when_their_lengths_are_given():
    spreads, lengths = [], [row % 8 for row in range(64)]

    def spread_of(rows):
        spreads.append(len({lengths[row] for row in rows}))
        return encode(rows)

    fine_tune(tiny_bert(), spread_of, 64, FineTuneConfig(epochs=2, batch_size=8), lengths=lengths)
    assert spreads == [1] * 16


def test_the_learning_rate_rises_then_falls():
    moved = [0.0]
    config = FineTuneConfig(epochs=1, batch_size=1, learning_rate=0.1, warmup=0.5, weight_decay=0.0)
    model = Drift()
    fine_tune(
        *(model, lambda rows: {"scale": torch.ones(1)}, 20, config),
        progress=lambda step, steps, loss: moved.append(model.weight.item()),
    )
    steps = [before - after for before, after in pairwise(moved)]
    assert max(range(20), key=lambda step: steps[step]) == 10
    assert steps[0] < 0.02 and steps[-1] < 0.02


def test_a_model_without_a_loss_is_refused():
    with pytest.raises(ModelError, match="the model returned SequenceClassifierOutput without a loss: let encode give"):
        fine_tune(tiny_bert(), lambda rows: {"input_ids": IDS[rows]}, 8, QUICK)


def test_a_loss_that_is_not_finite_is_named_with_its_step():
    with pytest.raises(ModelError, match=r"the loss is nan at step 1: lower learning_rate, now 5\.0e-03"):
        fine_tune(Drift(), lambda rows: {"scale": torch.full((4,), torch.nan)}, 8, QUICK)


def test_no_examples_are_refused():
    with pytest.raises(DataError, match="no examples to train on"):
        fine_tune(Drift(), encode, 0, QUICK)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epochs": 0}, "epochs must be positive, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"warmup": 1.0}, r"warmup must lie in \[0, 1\), got 1.0: it is a share"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or more"),
    ],
)
def test_a_setting_out_of_range_is_named(setting, message):
    with pytest.raises(SettingError, match=message):
        FineTuneConfig(**setting)
