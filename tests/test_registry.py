"""Tables import late and say what they hold."""

import sys

import pytest

from diffmask.errors import DiffMaskError, UnknownNameError
from diffmask.registry import Registry, unknown

METHODS = Registry("attribution method", {"gradient": "math:sqrt", "random": "colorsys:rgb_to_hls"})


def test_an_entry_is_what_its_path_names():
    import math

    assert METHODS.get("gradient") is math.sqrt


def test_nothing_is_imported_before_it_is_asked_for(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert METHODS.names == ("gradient", "random")
    assert "colorsys" not in sys.modules
    METHODS.get("random")
    assert "colorsys" in sys.modules


def test_a_misspelt_name_gets_the_nearest_one_and_the_list():
    with pytest.raises(UnknownNameError) as caught:
        METHODS.get("gradiant")
    wanted = "no attribution method named 'gradiant'; did you mean 'gradient'? Known: gradient, random"
    assert str(caught.value) == wanted


def test_a_name_like_no_other_gets_the_list_alone():
    assert unknown("metric", "zzz", ["auc", "kl"]) == "no metric named 'zzz'. Known: auc, kl"


def test_a_long_list_is_cut_and_says_so():
    message = unknown("site", "zzz", [f"block.{i}" for i in range(35)])
    assert message.endswith("block.29 and 5 more") and "block.30" not in message


def test_an_unknown_name_is_a_lookup_error_and_one_of_ours():
    assert issubclass(UnknownNameError, LookupError) and issubclass(UnknownNameError, DiffMaskError)
