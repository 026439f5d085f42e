import logging

import pytest
import torch

from diffmask.errors import InfeasibleError, ModelError, SettingError, SiteError
from diffmask.explaining.explain import explain
from diffmask.gates.baseline import BaselineConfig
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.models.adapter import Adapter
from diffmask.models.sites import Site
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.settings import change
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.random import batch_indices
from diffmask.training.start import place_baselines, survey
from toys import Evidence, evidence_model, evidence_task, small_recipe

WIDTHS = [4, 4, 4]


def placed(kind="hidden", **settings):
    model, task = evidence_model(), evidence_task()
    probe = make_probe(model.sites.names, WIDTHS, ProbeConfig(kind=kind, baseline=BaselineConfig(**settings)))
    batches = (task.collate(rows) for rows in batch_indices(len(task.train), 64, seed=0))
    found = survey(model, task, [task.collate(task.train)])
    with model.frozen():
        place_baselines(model, task, probe, Objective(ObjectiveConfig(), 3), found, batches, seed=0)
    return probe, found, model


def test_survey_agrees_with_the_mean_and_spread_of_the_real_units():
    model, task = evidence_model(), evidence_task()
    batch = task.collate(task.train)
    states = torch.eye(4)[batch.inputs["tokens"][batch.valid]]
    found = survey(model, task, [task.collate(task.train[:100]), task.collate(task.train[100:])])
    torch.testing.assert_close(found.means[2], states.mean(0))
    torch.testing.assert_close(found.stds[2], states.std(0, unbiased=False))


def test_a_baseline_fitted_to_random_masks_carries_no_evidence():
    probe, _, model = placed(start="ablation")
    evidence = model.model.answer(probe.baseline(2)).item()
    assert abs(evidence) < 0.3  # one token carries 3


@pytest.mark.parametrize("start, vector", [("zero", [0, 0, 0, 0]), ("token", [0, 0, 1, 0])])
def test_a_baseline_starts_where_it_is_told(start, vector):
    probe, _, _ = placed("input", start=start, token=2 if start == "token" else -1)
    torch.testing.assert_close(probe.baseline(0).detach(), torch.tensor(vector).float())


def test_a_mean_baseline_is_the_mean_state():
    probe, found, _ = placed(start="mean")
    torch.testing.assert_close(probe.baseline(2).detach(), found.means[2])


def test_a_token_baseline_needs_an_embedding():
    with pytest.raises(SettingError, match="needs an embedding with an entry 2 at site 'block 0'"):
        placed("hidden", start="token", token=2)


class Noisy(Evidence):
    """Answers a little differently every time."""

    def __init__(self, spread):
        super().__init__()
        self.spread, self.noise = spread, torch.Generator().manual_seed(0)

    def forward(self, tokens, valid):
        return super().forward(tokens, valid) + self.spread * torch.randn(len(tokens), generator=self.noise)


class Broken(Evidence):
    def forward(self, tokens, valid):
        return super().forward(tokens, valid) * torch.where(tokens[:, 0] == 2, torch.nan, 1.0)


def test_a_margin_that_even_the_full_input_breaks_is_refused_with_numbers():
    with pytest.raises(InfeasibleError, match=r"margin 0.1 cannot be met at site 'embedding'.*does not repeat itself"):
        fit(evidence_model(Noisy(spread=5.0)), evidence_task(), small_recipe())


def test_a_model_that_nearly_repeats_itself_is_fitted_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        fit(evidence_model(Noisy(spread=0.8)), evidence_task(), small_recipe(steps=5))
    assert "site 'embedding': with every unit kept the prediction moves by 0.0" in caplog.text


def test_nan_in_the_models_output_is_refused_by_name_and_example():
    with pytest.raises(ModelError, match=r"output 'output' is NaN or infinite for .* examples"):
        fit(evidence_model(Broken()), evidence_task(), small_recipe())


class Early(Evidence):
    """Answers with what left its first block."""

    def forward(self, tokens, valid):
        state = self.blocks[0](self.embedding(tokens))
        self.blocks[1](state)
        return (self.answer(state).squeeze(-1) * valid).sum(1)


@pytest.mark.parametrize("settings", [{"depths_per_step": 1}, {"depths_per_step": 3}, {"start": "mean"}], ids=str)
def test_a_state_that_nobody_reads_needs_no_gradient_and_nothing_is_kept_there(settings):
    task = evidence_task()
    found = fit(evidence_model(Early()), task, small_recipe(steps=30, **settings))
    assert all(each.verification.divergence == 0 for each in explain(found, task.validation, depth=2))


class Deciding(Evidence):
    """Answers without a gradient."""

    def forward(self, tokens, valid):
        with torch.no_grad():
            return super().forward(tokens, valid)


@pytest.mark.parametrize("start", ["ablation", "mean"])
def test_a_model_from_which_no_gradient_comes_back_is_refused_with_what_learns_without(start):
    model, task = evidence_model(Deciding()), evidence_task()
    config = small_recipe(steps=5)
    with pytest.raises(ModelError, match=r"no gradient comes back from Deciding: .* recipe\("):
        fit(model, task, change(config, {"start": start}))
    assert fit(model, task, recipe("ranking", start="mean", steps=2, pairs=1, validate_every=2)).probe is not None


def test_a_site_without_one_state_per_unit_is_refused():
    model = Evidence()
    adapter = Adapter(model, [Site("whole", model)])
    with pytest.raises(SiteError, match="site 'whole' holds a state of shape"):
        survey(adapter, evidence_task(), [evidence_task().collate([0, 1])])


def test_sites_out_of_order_are_refused_with_the_order():
    model = Evidence()
    adapter = Adapter(model, [Site("late", model.blocks[1]), Site("early", model.embedding)])
    with pytest.raises(SiteError, match="in the order the model reaches them, which is early, late"):
        survey(adapter, evidence_task(), [evidence_task().collate([0, 1])])
