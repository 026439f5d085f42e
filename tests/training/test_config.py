import json

import pytest

from diffmask.errors import SettingError, UnknownNameError
from diffmask.settings import from_dict, to_dict
from diffmask.training.config import FitConfig, recipe


def test_settings_survive_json():
    config = recipe("published", kind="hidden", margin=0.3, steps=12)
    assert from_dict(FitConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_an_unknown_recipe_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'published'"):
        recipe("publishd")


@pytest.mark.parametrize("margin", [0, -0.1, float("nan")])
def test_a_margin_that_is_not_positive_is_refused_with_the_reason(margin):
    with pytest.raises(SettingError, match=r"margin must be positive, got .* no unit could ever be masked"):
        recipe(margin=margin)


@pytest.mark.parametrize("name", ["steps", "batch_size", "learning_rate"])
def test_a_setting_that_must_be_positive_says_so(name):
    with pytest.raises(SettingError, match=f"{name} must be positive and finite, got 0"):
        recipe(**{name: 0})


def test_a_recipe_is_changed_wherever_the_setting_is():
    config = recipe("published", kind="hidden", ablation_steps=3, integral=2.0, rate=0.4, learning_rate=1e-2)
    assert (config.probe.kind, config.probe.baseline.ablation_steps) == ("hidden", 3)
    assert (config.objective.rate, config.objective.controller.integral) == (0.4, 2.0)
    assert config.learning_rate == 1e-2  # the outer one of two
    assert config.probe.baseline.learning_rate == recipe("published").probe.baseline.learning_rate


def test_a_misspelt_setting_gets_the_nearest_and_a_wrong_type_its_name():
    with pytest.raises(SettingError, match="no setting named 'margn'; did you mean 'margin'"):
        recipe(margn=0.1)
    with pytest.raises(SettingError, match="steps takes int, got '100'"):
        recipe(steps="100")


def test_validations_are_few_where_they_decide_nothing_and_checkpoints_are_not():
    quiet = recipe("text", steps=100)
    assert (quiet.validation_steps, quiet.checkpoint_steps) == (25, 5)
    assert recipe("text", steps=100, patience=3).validation_steps == 5
    assert recipe("default", steps=100).validation_steps == 5
    assert recipe("text", steps=100, validate_every=10).checkpoint_steps == 10
