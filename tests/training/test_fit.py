import pytest
import torch

from diffmask.errors import DataError, ModelError, SettingError, StorageError, UnknownNameError
from diffmask.storage import load_tensors
from diffmask.tasks.tensors import TensorTask
from diffmask.training.fit import CHECKPOINT, fit
from toys import Evidence, evidence_model, evidence_task, small_recipe


def kept_by_token(fitted, depth):
    """Say for each of the four tokens whether the thresholded mask keeps it."""
    from diffmask.training.step import look

    tokens = torch.arange(4).unsqueeze(0)
    valid = torch.ones(1, 4, dtype=torch.bool)
    task = TensorTask({"tokens": tokens.repeat(2, 1), "valid": valid.repeat(2, 1)}, valid.repeat(2, 1), "bernoulli", 1)
    with torch.no_grad():
        seen = look(fitted.model, task, task.collate([0]))
        return fitted.probe(seen.states, depth).hard_keep()[0].tolist()


@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_fit_keeps_the_evidence_and_drops_the_rest(kind, seed):
    fitted = fit(evidence_model(), evidence_task(), small_recipe(kind=kind, seed=seed))
    assert fitted.feasible
    assert kept_by_token(fitted, depth=2) == [False, False, True, True]


def test_rate_form_keeps_no_more_than_its_rate():
    from dataclasses import replace

    config = small_recipe()
    config = replace(config, objective=replace(config.objective, form="rate", rate=0.6))
    fitted = fit(evidence_model(), evidence_task(), config)
    assert all(score.kept <= 0.62 for score in fitted.scores)


def test_the_published_recipe_runs():
    fitted = fit(evidence_model(), evidence_task(), small_recipe("published", steps=40))
    assert len(fitted.scores) == 3


def test_reinforce_gates_can_be_amortised():
    from dataclasses import replace

    config = small_recipe(steps=60)
    fitted = fit(evidence_model(), evidence_task(), replace(config, probe=replace(config.probe, gate="reinforce")))
    assert all(torch.isfinite(parameter).all() for parameter in fitted.probe.parameters())


def same_weights(one, other):
    pairs = zip(one.probe.state_dict().items(), other.probe.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    config = small_recipe(steps=30)
    torch.manual_seed(1)
    one = fit(evidence_model(), evidence_task(), config)
    torch.manual_seed(2)  # the global generator must not matter
    assert same_weights(one, fit(evidence_model(), evidence_task(), config))
    assert not same_weights(one, fit(evidence_model(), evidence_task(), small_recipe(steps=30, seed=5)))


def test_a_fit_leaves_the_model_as_it_was():
    model = Evidence().train()
    model.answer.weight.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fit(evidence_model(model), evidence_task(), small_recipe(steps=20))
    assert all(module.training for module in model.modules())
    assert model.embedding.weight.requires_grad and not model.answer.weight.requires_grad
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_recipe_may_be_named_instead_of_settings():
    with pytest.raises(UnknownNameError, match="did you mean 'default'"):
        fit(evidence_model(), evidence_task(), "defalt")


@pytest.mark.parametrize("model, task", [(Evidence(), None), (None, 3)])
def test_what_is_neither_model_nor_task_is_refused_with_the_next_step(model, task):
    if hasattr(fit, "__wrapped__"):  # under test, the shape checker would refuse it before we can
        fit_unchecked = fit.__wrapped__
        with pytest.raises(SettingError, match=r"pass diffmask.adapt\(model\)|wrap tensors in diffmask.TensorTask"):
            fit_unchecked(model or evidence_model(), task or evidence_task())


class BrokenLater(Evidence):
    """Fine where the fit looks first, NaN on an example it meets while training."""

    def forward(self, tokens, valid):
        logits = super().forward(tokens, valid)
        self.seen = getattr(self, "seen", 0) + 1
        return logits * (torch.nan if self.seen > 400 else 1.0)


def test_nan_during_training_stops_the_fit_and_leaves_the_checkpoint_good(tmp_path):
    config = small_recipe(steps=400, checkpoint_every=1, validate_every=400)
    with pytest.raises(ModelError, match="NaN or infinite at step"):
        fit(evidence_model(BrokenLater()), evidence_task(), config, directory=tmp_path)
    tensors, _ = load_tensors(tmp_path / CHECKPOINT, "fit checkpoint")
    assert all(tensor.isfinite().all() for name, tensor in tensors.items() if name.startswith("probe/"))


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    interrupted(tmp_path)
    with pytest.raises(StorageError, match="belongs to other data"):
        fit(evidence_model(), evidence_task(seed=9), small_recipe(steps=20), directory=tmp_path)


def test_an_empty_data_set_is_refused():
    task = evidence_task()
    task.validation = range(0)
    with pytest.raises(DataError, match="at least one training and one validation example"):
        fit(evidence_model(), task, small_recipe())


def test_patience_stops_a_fit_that_no_longer_improves():
    fitted = fit(evidence_model(), evidence_task(), small_recipe(steps=1500, validate_every=50, patience=2))
    assert fitted.history[-1]["step"] < 1500


def test_a_finished_fit_resumes_to_the_same_result(tmp_path):
    config = small_recipe(steps=60)
    one = fit(evidence_model(), evidence_task(), config, directory=tmp_path)
    again = fit(evidence_model(), evidence_task(), config, directory=tmp_path)
    assert same_weights(one, again)


def interrupted(tmp_path):
    fit(evidence_model(), evidence_task(), small_recipe(steps=20), directory=tmp_path)
    return tmp_path / CHECKPOINT


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    interrupted(tmp_path)
    other = Evidence()
    torch.nn.init.constant_(other.answer.weight, 0.5)
    with pytest.raises(StorageError, match="belongs to another model"):
        fit(evidence_model(other), evidence_task(), small_recipe(steps=20), directory=tmp_path)


def test_a_checkpoint_with_other_settings_is_refused_by_name(tmp_path):
    interrupted(tmp_path)
    with pytest.raises(StorageError, match=r"other settings \(steps, seed differ\)"):
        fit(evidence_model(), evidence_task(), small_recipe(steps=25, seed=3), directory=tmp_path)


def test_a_truncated_checkpoint_is_refused_and_left_alone(tmp_path):
    path = interrupted(tmp_path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(StorageError, match="is not a whole safetensors file"):
        fit(evidence_model(), evidence_task(), small_recipe(steps=20), directory=tmp_path)
    assert path.stat().st_size == 1000
