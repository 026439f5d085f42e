"""DiffMask per example: restarts choose among searches, and polished masks are sets that were measured to hold."""

import pytest
import torch

from diffmask.attribution.per_example import PerExample
from diffmask.errors import SettingError
from diffmask.objective.constraint import Constraint
from diffmask.objective.objective import ObjectiveConfig
from diffmask.training.free import FreeConfig
from diffmask.training.polish import Polish
from diffmask.training.step import look
from recurrent_models import ask_reader

MARGIN = 0.2


@pytest.fixture
def question():
    return ask_reader(lengths=(5, 3, 1), padding=1)


def holds(question, keep):
    seen = look(question.model, question.task, question.batch)
    return Constraint(MARGIN).holds(seen.original, seen.masked_at(question.site_name, keep, question.baseline))


def test_per_example_masks_polished_are_sets_that_hold(question):
    search_few, objective = FreeConfig(steps=8), ObjectiveConfig(margin=MARGIN)
    for way in ("drop", "exchange"):
        scores = PerExample(objective, search_few, restarts=2, polish=way)(question)
        assert set(scores.unique().tolist()) <= {0.0, 1.0}
        with torch.no_grad(), question.model.frozen():
            assert holds(question, scores > 0.5).all()


def test_restarts_are_searches_that_no_other_seed_makes(question):
    objective = ObjectiveConfig(margin=MARGIN)
    runs = [PerExample(objective, FreeConfig(steps=8, seed=seed))(question) for seed in (6, 7)]
    best = PerExample(objective, FreeConfig(steps=8, seed=3), restarts=2)(question)
    assert all(any(torch.equal(row, run[i]) for run in runs) for i, row in enumerate(best))


def test_polishing_a_text_works_where_units_are_knocked_out_of_attention(ask_text):
    asked = ask_text(["a funny movie .", "enjoyable"], unit="word")
    seen = look(asked.model, asked.task, asked.batch)
    with torch.no_grad(), asked.model.frozen():
        polish = Polish(seen, asked.site_name, None, Constraint(MARGIN))
        keep = polish(asked.batch.valid, torch.rand(asked.batch.valid.shape))
        masked = seen.masked_at(asked.site_name, keep, None)
    assert Constraint(MARGIN).holds(seen.original, masked).all()


def test_no_search_at_all_is_refused():
    with pytest.raises(SettingError, match="restarts must be at least 1, got 0"):
        PerExample(restarts=0)
