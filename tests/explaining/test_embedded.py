import socket
import sys

import pytest
import torch

import diffmask
from diffmask.errors import DataError, DiffMaskError, StorageError
from diffmask.explaining.embedded import embedded_model, load_embedded
from diffmask.studies.demo import SENTENCES
from diffmask.training import saved

TEXT = "A fast, funny, highly enjoyable movie."


@pytest.fixture(scope="module")
def fitted():
    return load_embedded()


def test_the_model_comes_in_float32_without_dropout(fitted):
    assert fitted.model.dtype == torch.float32 and not fitted.model.model.training


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_each_kind_of_probe_belongs_to_the_model_and_explains(kind):
    fitted = load_embedded(kind)
    explanation = diffmask.explain(fitted, [TEXT])[0]
    assert explanation.info["kind"] == kind and explanation.info["fingerprint"] == fitted.model.fingerprint
    assert explanation.units[1:4] == ("a", "fast", ",") and explanation.verification is not None


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_another_precision_keeps_the_same_units(kind):
    kept = {}
    for dtype in ("float32", "bfloat16", "float16"):
        fitted = diffmask.from_pretrained(f"embedded:{kind}", dtype=dtype)
        kept[dtype] = [each.kept_units for each in diffmask.explain(fitted, SENTENCES)]
    assert kept["float32"] == kept["bfloat16"] == kept["float16"]


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_what_the_probes_leave_out_changes_nothing_in_the_precision_they_were_fitted_in(kind, monkeypatch):
    now = diffmask.explain(load_embedded(kind), SENTENCES)
    monkeypatch.setattr(saved, "BLOWN_UP", -1.0)
    before = load_embedded(kind)
    assert any(bool((voter.scale == 1e6).any()) for voter in before.probe.voters)
    for one, other in zip(now, diffmask.explain(before, SENTENCES), strict=True):
        assert torch.equal(one.kept, other.kept)
        torch.testing.assert_close(one.scores.exp(), other.scores.exp(), atol=1e-3, rtol=0)


def test_explanations_carry_the_names_of_the_labels(fitted, tmp_path):
    explanation = diffmask.explain(fitted, [TEXT])[0]
    assert explanation.info["labels"] == ["negative", "positive"]
    explanation.save(tmp_path / "e.safetensors")
    assert diffmask.Explanation.load(tmp_path / "e.safetensors").info == explanation.info


def test_a_task_without_names_for_its_labels_takes_those_of_its_model_if_it_has_labels(fitted, monkeypatch):
    monkeypatch.setattr(fitted.task, "labels", None)
    assert diffmask.explain(fitted, [TEXT])[0].info["labels"] == ["negative", "positive"]
    monkeypatch.setattr(type(fitted.task), "labelled", False)
    assert "labels" not in diffmask.explain(fitted, [TEXT])[0].info


def test_loading_needs_no_network(monkeypatch):
    def refuse(*_args, **_settings):
        raise AssertionError("something asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load_embedded()


def test_loading_is_quiet_and_leaves_the_dice_alone(capfd):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    load_embedded()
    assert torch.equal(torch.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")


def test_a_text_that_is_too_long_is_refused_when_strict():
    with pytest.raises(DataError, match="the model takes 128"):
        diffmask.explain(load_embedded(strict=True), ["word " * 200])


def test_without_transformers_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(DiffMaskError, match=r"pip install 'diffmask\[text\]'"):
        load_embedded()


def test_a_file_missing_from_the_package_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"config\.json is missing.*install it again"):
        embedded_model(tmp_path)


def test_an_unknown_kind_is_refused_with_those_there_are(outside):
    complaint = outside("import diffmask; diffmask.load_embedded('inputs')")
    assert "no kind of probe named 'inputs'; did you mean 'input'? Known: input, hidden" in complaint
