import pytest
import torch

from diffmask.errors import DataError, ModelError, StorageError, UnknownNameError
from diffmask.explaining.certify import certify
from diffmask.explaining.explain import explain
from diffmask.storage import load_tensors, save_tensors
from diffmask.tasks.tensors import TensorTask
from diffmask.training import trainer
from diffmask.training.fit import CHECKPOINT, fit
from diffmask.training.run import KIND, Progress, Run, data_mark
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


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("fit(Evidence(), evidence_task())", "fit takes an adapted model, got Evidence: pass diffmask.adapt(model)"),
        ("fit(evidence_model(), 3)", "fit takes a task, got int: wrap tensors in diffmask.TensorTask"),
    ],
)
def test_what_is_neither_model_nor_task_is_refused_with_the_next_step(outside, call, wanted):
    complaint = outside(f"from diffmask import fit; from toys import Evidence, evidence_model, evidence_task; {call}")
    assert f"SettingError: {wanted}" in complaint


# The survey looks at 5 batches, 40 steps place the baselines (a look and a masked pass per depth), and the start is
# measured on 5 batches (a look and three masked passes per depth); then every step takes one look and one masked pass.
START_UP = 5 + 40 * (1 + 3) + 5 * (1 + 3 * 3)


class BrokenLater(Evidence):
    """Fine where the fit starts, NaN from some pass of its training on."""

    def __init__(self, good_passes):
        super().__init__()
        self.good_passes = START_UP + good_passes

    def forward(self, tokens, valid):
        logits = super().forward(tokens, valid)
        return logits * (torch.nan if self.passes > self.good_passes else 1.0)


@pytest.mark.parametrize(
    ("good_passes", "complaint"),
    [
        (40, "'output' is NaN or infinite at step 20 for"),
        (41, "the probe's weights became NaN or infinite before step 21: the model's masked output"),
    ],
    ids=["as it is", "masked"],
)
def test_nan_during_training_stops_the_fit_and_leaves_the_checkpoint_good(tmp_path, good_passes, complaint):
    config = small_recipe(steps=400, checkpoint_every=1, validate_every=400)
    with pytest.raises(ModelError, match=complaint):
        fit(evidence_model(BrokenLater(good_passes)), evidence_task(), config, directory=tmp_path)
    tensors, info = load_tensors(tmp_path / CHECKPOINT, "fit checkpoint")
    assert info["progress"]["step"] == 20
    assert all(tensor.isfinite().all() for name, tensor in tensors.items() if name.startswith("probe/"))


def test_a_fit_that_broke_says_how_its_directory_takes_another_try(tmp_path):
    config = small_recipe(steps=400, checkpoint_every=1, validate_every=400)
    with pytest.raises(ModelError, match=rf"; to try other settings in {tmp_path}, remove {CHECKPOINT} there$"):
        fit(evidence_model(BrokenLater(40)), evidence_task(), config, directory=tmp_path)
    with pytest.raises(StorageError, match=r"other settings \(.*, or remove it to begin anew"):
        fit(evidence_model(BrokenLater(10**9)), evidence_task(), small_recipe(steps=20), directory=tmp_path)
    (tmp_path / CHECKPOINT).unlink()
    assert fit(evidence_model(), evidence_task(), small_recipe(steps=20), directory=tmp_path).scores


def test_nan_is_found_long_before_the_end_where_validations_are_few():
    model = evidence_model(BrokenLater(40))
    with pytest.raises(ModelError, match="'output' is NaN or infinite at step 20 for"):
        fit(model, evidence_task(), small_recipe(steps=400, guard=False, select=False))
    assert model.model.passes <= START_UP + 2 * 40  # step 40, not step 100


@pytest.mark.parametrize(("steps", "validations"), [(40, 5), (42, 6)])
def test_a_probe_that_was_just_validated_is_not_validated_again(monkeypatch, steps, validations):
    asked, once = [], trainer.validate
    monkeypatch.setattr(trainer, "validate", lambda *given: asked.append(1) or once(*given))
    fitted = fit(evidence_model(), evidence_task(), small_recipe(steps=steps, guard=False, select=False))
    assert len(asked) == validations
    assert fitted.history[-1]["step"] == steps


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


def test_a_depth_that_starts_anew_gets_a_whole_training_and_new_patience():
    progress = Progress.fresh(depth_count=3, steps=100)
    progress.step, progress.waited = 60, 4
    progress.start_anew(1, steps=100)
    assert (progress.began, progress.ends) == ([0, 60, 0], [100, 160, 100])
    assert (progress.restarts, progress.waited) == ([0, 1, 0], 0)
    assert [progress.of(depth) for depth in range(3)] == [0.6, 0.0, 0.6]


def test_patience_waits_for_a_depth_that_started_anew(monkeypatch):
    answers = iter([None] * 5 + ["open"])  # three depths, asked at steps 100 and 120
    monkeypatch.setattr(Run, "_better", lambda run, *_: not run.best)  # at step 120 it has waited long enough
    monkeypatch.setattr(trainer, "diagnose", lambda *_: next(answers, None))
    fitted = fit(evidence_model(), evidence_task(), small_recipe(steps=200, validate_every=20, patience=1))
    assert fitted.restarts == [0, 0, 1] and fitted.history[-1]["step"] >= 120 + 100


def test_the_mark_of_a_data_set_tells_it_from_others_and_is_repeated():
    mark = data_mark(evidence_task())
    assert mark == data_mark(evidence_task()) and mark.startswith("300+100 ")
    assert len({mark, data_mark(evidence_task(seed=1)), data_mark(evidence_task(count=399))}) == 3


def regression_task():
    task = evidence_task()
    return TensorTask(task.inputs, task.valid, "value", validation_count=100)


def test_a_regression_is_fitted_and_decides_nothing_that_could_change():
    fitted = fit(evidence_model(), regression_task(), small_recipe(margin=1.0))
    assert fitted.feasible and all(score.agreement == 1 for score in fitted.scores)
    assert kept_by_token(fitted, depth=2) == [False, False, True, True]
    for explanation in (*explain(fitted, range(5)), *certify(fitted, range(5))):
        assert explanation.verification.same_prediction is None
    assert all(explanation.certified for explanation in certify(fitted, range(5)))


def test_a_checkpoint_from_before_a_setting_was_there_goes_on(tmp_path):
    config = small_recipe(steps=8)
    whole = fit(evidence_model(), evidence_task(), config, directory=tmp_path)
    tensors, info = load_tensors(tmp_path / CHECKPOINT, KIND)
    del info["settings"]["probe"]["members"], info["settings"]["undecided"]
    save_tensors(tmp_path / CHECKPOINT, KIND, tensors, info)
    assert same_weights(fit(evidence_model(), evidence_task(), config, directory=tmp_path), whole)
