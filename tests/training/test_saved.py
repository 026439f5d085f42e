import pytest
import torch

from diffmask.errors import StorageError
from diffmask.explaining.explain import explain
from diffmask.models.adapter import Adapter
from diffmask.storage import load_tensors, save_tensors
from diffmask.training.fit import fit
from diffmask.training.saved import KIND, load_fit, save_fit
from toys import Evidence, evidence_model, evidence_task, small_recipe


@pytest.fixture(scope="module")
def fitted():
    return fit(evidence_model(), evidence_task(), small_recipe(steps=30))


def test_a_saved_probe_explains_as_before(fitted, tmp_path):
    save_fit(fitted, tmp_path / "probe.safetensors")
    loaded = load_fit(tmp_path / "probe.safetensors", evidence_model(), evidence_task())
    one, other = (explain(f, fitted.task.validation[:5]) for f in (fitted, loaded))
    assert all(
        torch.equal(a.scores, b.scores) and a.verification == b.verification for a, b in zip(one, other, strict=True)
    )
    assert loaded.config == fitted.config and loaded.scores == fitted.scores


def test_only_the_probe_is_saved(fitted, tmp_path):
    path = tmp_path / "probe.safetensors"
    save_fit(fitted, path)
    assert b"answer.weight" not in path.read_bytes()


def test_a_probe_of_another_model_is_refused(fitted, tmp_path):
    save_fit(fitted, tmp_path / "probe.safetensors")
    other = Evidence()
    torch.nn.init.constant_(other.answer.weight, 0.5)
    with pytest.raises(StorageError, match="was fitted on another model"):
        load_fit(tmp_path / "probe.safetensors", evidence_model(other), evidence_task())


def test_a_probe_of_other_sites_is_refused(fitted, tmp_path):
    save_fit(fitted, tmp_path / "probe.safetensors")
    model = evidence_model()
    with pytest.raises(StorageError, match=r"reads the sites .*: adapt the model with those, adapt\(model, sites="):
        load_fit(tmp_path / "probe.safetensors", Adapter(model.model, model.sites[:2]), evidence_task())


def test_a_probe_whose_gates_read_other_states_is_refused(fitted, tmp_path):
    save_fit(fitted, tmp_path / "probe.safetensors")
    task = evidence_task()
    task.ask = "first"
    with pytest.raises(StorageError, match=r"was fitted to a task with ask=None.*make the task with the same"):
        load_fit(tmp_path / "probe.safetensors", evidence_model(), task)


def test_a_probe_from_before_constants_were_left_out_leaves_them_out_when_loaded(fitted, tmp_path):
    save_fit(fitted, path := tmp_path / "probe.safetensors")
    tensors, info = load_tensors(path, KIND)
    tensors["voters.0.scale"][1] = 1e6  # what a spread of 0 was once divided by
    save_tensors(path, KIND, tensors, info)
    found = load_fit(path, evidence_model(), evidence_task()).probe.voter(0).scale
    assert found[1] == 0 and torch.equal(found[2:], fitted.probe.voter(0).scale[2:]) and bool((found[2:] > 0).all())
