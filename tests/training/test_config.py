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
    with pytest.raises(SettingError, match=f"{name} must be positive, got 0"):
        recipe(**{name: 0})
