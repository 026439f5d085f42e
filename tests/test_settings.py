"""Settings go to plain data and back, and what does not fit is named."""

import json
import tomllib
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from diffmask.errors import SettingError
from diffmask.settings import change, check_choices, from_dict, to_dict, to_toml
from diffmask.training.config import FitConfig, recipe


@dataclass(frozen=True)
class Inner:
    rate: Annotated[float, "how fast"] = 0.5
    name: str = "adam"


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    steps: Annotated[int, "how many"] = 10
    verbose: bool = False
    form: Annotated[Literal["margin", "rate"], "which"] = "margin"


@dataclass(frozen=True)
class Both:
    inner: Inner = field(default_factory=Inner)
    rate: float = 2.0


def test_settings_survive_a_trip_through_json():
    settings = Outer(Inner(0.25, "sgd"), 3, True, "rate")
    assert from_dict(Outer, json.loads(json.dumps(to_dict(settings)))) == settings


def test_what_is_left_out_keeps_its_default():
    assert from_dict(Outer, {"inner": {"rate": 0.1}}) == Outer(Inner(0.1))


def test_an_unknown_setting_is_named_with_its_place_and_the_nearest():
    with pytest.raises(SettingError) as caught:
        from_dict(Outer, {"inner": {"rat": 1.0}}, "run.toml")
    assert str(caught.value) == "run.toml.inner: no setting named 'rat'; did you mean 'rate'? Known: rate, name"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"steps": "ten"}, "settings.steps takes int, got 'ten'"),
        ({"steps": 1.5}, "settings.steps takes int, got 1.5"),
        ({"steps": True}, "settings.steps takes int, got True"),
        ({"verbose": 1}, "settings.verbose takes bool, got 1"),
        ({"inner": {"rate": True}}, "settings.inner.rate takes float, got True"),
        ({"inner": {"rate": None}}, "settings.inner.rate takes float, got None"),
        ({"inner": 3}, "settings.inner is a group of settings, got 3"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_what_it_takes(data, message):
    with pytest.raises(SettingError) as caught:
        from_dict(Outer, data)
    assert str(caught.value) == message


def test_a_whole_number_serves_as_a_float():
    rate = from_dict(Inner, {"rate": 1}).rate
    assert rate == 1.0 and isinstance(rate, float)


def test_a_choice_that_does_not_exist_is_refused_with_the_choices():
    with pytest.raises(
        SettingError, match=r"run\.form: no choice named 'margn'; did you mean 'margin'\? Known: margin, rate"
    ):
        check_choices(Outer(form="margn"), "run")


def test_a_change_finds_its_setting_wherever_it_is():
    assert change(Outer(), {"rate": 1, "steps": 3}) == Outer(Inner(1.0), 3)


def test_a_whole_group_may_be_changed():
    assert change(Outer(), {"inner": Inner(0.1)}) == change(Outer(), {"inner": {"rate": 0.1}}) == Outer(Inner(0.1))


def test_of_two_settings_of_one_name_the_outer_one_is_changed():
    assert change(Both(), {"rate": 3.0}) == Both(Inner(0.5), 3.0)


def test_a_change_leaves_the_settings_it_was_made_from_alone():
    before = Outer()
    change(before, {"rate": 0.1})
    assert before == Outer()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rat": 0.1}, "no setting named 'rat'; did you mean 'rate'? Known: rate, name, inner, steps, verbose, form"),
        ({"rate": "fast"}, "rate takes float, got 'fast'"),
        ({"steps": 1.5}, "steps takes int, got 1.5"),
        ({"inner": 3}, "inner is a group of settings, got 3"),
        ({"inner": Outer()}, f"inner is a group of settings, got {Outer()!r}"),
        ({"inner": {"rat": 3}}, "no setting named 'rat'; did you mean 'rate'? Known: rate, name"),
    ],
)
def test_a_change_that_does_not_fit_is_named(changes, message):
    with pytest.raises(SettingError) as caught:
        change(Outer(), changes)
    assert str(caught.value) == message


def test_what_is_written_as_toml_is_read_back():
    settings = to_dict(recipe("published-vision")) | {
        "name": 'a "b" \\ \x7f é\n',
        "far": float("inf"),
        "many": ["x", "y"],
    }
    assert tomllib.loads(to_toml(settings)) == settings


def test_a_choice_that_is_none_is_named_with_where_it_stood():
    with pytest.raises(SettingError, match=r"run\.toml\.probe\.kind: no choice named 'inputs'; did you mean 'input'"):
        from_dict(FitConfig, {"probe": {"kind": "inputs"}}, "run.toml")


def test_settings_that_go_together_change_in_any_order():
    one = recipe("text", form="rate", calibrate=False)
    assert one == recipe("text", calibrate=False, form="rate") and one.objective.form == "rate"
    assert recipe("text", voter="ranker", votes="separate") == recipe("text", votes="separate", voter="ranker")


def test_a_group_and_a_field_of_it_change_together():
    assert change(Outer(), {"rate": 0.1, "inner": Inner(0.9, "sgd")}) == Outer(Inner(0.1, "sgd"))
    assert change(Outer(Inner(0.9, "sgd")), {"rate": 0.1, "inner": {"rate": 0.2}}) == Outer(Inner(0.1, "sgd"))
    one = recipe("text", probe={"voter": "ranker"}, votes="separate")
    assert (
        one == recipe("text", voter="ranker", votes="separate") and one.probe.baseline == recipe("text").probe.baseline
    )
