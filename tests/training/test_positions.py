"""Baselines that differ by position, as states do: measured, shrunk where little was seen, and kept on disk."""

import pytest
import torch

from diffmask.gates.baseline import BaselineConfig
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.masking.mask import at_positions, mask_state
from diffmask.models.adapting import adapt
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.tasks.text import NextToken
from diffmask.training.fit import fit
from diffmask.training.random import batch_indices
from diffmask.training.saved import load_fit, save_fit
from diffmask.training.start import RARE, place_baselines, survey
from diffmask.training.step import look
from diffmask.types import Batch
from tiny_text import make_model, make_tokenizer, pad_left
from toys import evidence_model, evidence_task, small_recipe


def batch_of(count, **inputs):
    return Batch(inputs, torch.ones(2, count, dtype=torch.bool))


def test_beyond_its_last_row_a_baseline_repeats_it():
    rows = torch.arange(6.0).view(3, 2)
    assert at_positions(rows, batch_of(5)).tolist() == [[[0, 1], [2, 3], [4, 5], [4, 5], [4, 5]]] * 2
    assert torch.equal(at_positions(rows, batch_of(2)), rows[:2].expand(2, 2, 2))
    assert torch.equal(at_positions(rows[0], batch_of(5)), rows[0])


def test_rows_are_counted_from_the_first_real_token():
    mask, rows = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]]), torch.arange(3.0).view(3, 1)
    batch = batch_of(4, attention_mask=mask)
    assert batch.order.tolist() == [[0, 0, 0, 1], [0, 1, 2, 2]]
    assert at_positions(rows, batch).squeeze(-1)[mask.bool()].tolist() == [0, 1, 0, 1, 2]


def test_a_dropped_unit_gets_the_baseline_of_its_position():
    state, rows = torch.randn(2, 4, 3), torch.randn(3, 3)
    keep = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, 1.0]])
    masked = mask_state(state, keep, at_positions(rows, batch_of(4)))
    for i in range(2):
        for j in range(4):
            expected = keep[i, j] * state[i, j] + (1 - keep[i, j]) * rows[min(j, 2)]
            torch.testing.assert_close(masked[i, j], expected)


def test_offsets_are_how_far_the_mean_at_a_position_is_from_the_mean_shrunk_by_how_little_was_seen():
    model, task = evidence_model(), evidence_task()
    found = survey(model, task, [task.collate(task.train[:100]), task.collate(task.train[100:])])
    batch = task.collate(task.train)
    states, valid = torch.eye(4)[batch.inputs["tokens"]], batch.valid
    mean = states[valid].mean(0)
    for position in range(6):
        there = states[:, position][valid[:, position]]
        expected = len(there) / (len(there) + RARE) * (there.mean(0) - mean)
        torch.testing.assert_close(found.offsets[1][position], expected, rtol=1e-4, atol=1e-5)


def test_batches_of_any_length_in_any_order_give_the_same_offsets():
    task = NextToken(make_tokenizer(causal=True), [], [])
    model, texts = adapt(make_model("llama")), ["a fast movie", "a funny enjoyable movie . fast", "fast ."]
    orders = ([0], [1], [2]), ([1], [2], [0]), ([2], [0], [1])
    found = [survey(model, task, [task.collate([texts[i] for i in rows]) for rows in order]) for order in orders]
    for other in found[1:]:
        for one, two in zip(found[0].offsets, other.offsets, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("start", ["zero", "mean", "ablation"])
def test_every_masked_site_but_the_input_gets_its_offsets(start):
    model, task = evidence_model(), evidence_task()
    config = BaselineConfig(start=start, positions=4, ablation_steps=3)
    probe = make_probe(model.sites.names, [4, 4, 4], ProbeConfig(kind="hidden", baseline=config))
    found = survey(model, task, [task.collate(task.train)])
    batches = (task.collate(rows) for rows in batch_indices(len(task.train), 64, seed=0))
    with model.frozen():
        place_baselines(model, task, probe, Objective(ObjectiveConfig(), 3), found, batches, seed=0)
    assert probe.baseline(0).shape == (4,)
    for depth in (1, 2):
        rows = probe.baseline(depth)
        assert rows.shape == (5, 4)
        torch.testing.assert_close(rows[:4] - rows[4], found.offsets[depth][:4])


def test_the_input_has_no_position_yet():
    config = ProbeConfig(kind="input", baseline=BaselineConfig(positions=4))
    assert all(make_probe(("embed", "a"), (3, 3), config).baseline(depth).shape == (3,) for depth in (0, 1))


def test_a_baseline_by_position_is_saved_and_loaded(tmp_path):
    fitted = fit(evidence_model(), evidence_task(150), small_recipe(steps=3, positions=4, guard=False))
    save_fit(fitted, tmp_path / "probe.safetensors")
    loaded = load_fit(tmp_path / "probe.safetensors", evidence_model(), evidence_task(150))
    for depth in range(3):
        assert torch.equal(loaded.probe.baseline(depth), fitted.probe.baseline(depth))
    assert bool((fitted.probe.baselines.offsets[1] != 0).any())


def test_what_stands_in_for_a_unit_does_not_depend_on_padding_on_the_left():
    task = pad_left(NextToken(make_tokenizer(causal=True), [], []))
    model, baseline = adapt(make_model("llama")), torch.randn(4, 16)
    site = model.sites.names[2]
    predictions = []
    for texts in (["a fast movie"], ["a fast movie", "a funny enjoyable movie . fast"]):
        seen = look(model, task, task.collate(texts))
        with torch.no_grad():
            masked = seen.masked_at(site, torch.zeros(seen.batch.valid.shape), baseline)
        predictions.append(masked["next token"].raw[0])
    torch.testing.assert_close(*predictions, rtol=1e-4, atol=1e-4)
