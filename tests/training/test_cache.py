"""The original pass of an example is remembered, and a fit with it ends where one without it does."""

import logging
import os

import pytest
import torch

from diffmask.models.adapting import adapt
from diffmask.tasks.tensors import TensorTask
from diffmask.tasks.text import NextToken, SpanAnswer, TextClassification, TokenClassification
from diffmask.training.cache import Cache
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.rows import marks_of
from diffmask.training.step import look
from diffmask.types import Categorical
from tiny_text import TEXTS, make_model, make_tokenizer, pad_left
from tiny_vision import build, images
from toys import evidence_model, evidence_task, small_recipe

CPU = torch.device("cpu")
BIG = 1 << 30


def text_subject(side="right", **settings):
    """A BERT padded on the right, or a Llama padded on the left, where it does not count positions."""
    if side == "left":
        tokenizer = make_tokenizer(causal=True)
        task = pad_left(NextToken(tokenizer, TEXTS, TEXTS, **settings))
        return adapt(make_model("llama", use_cache=False), tokenizer), task
    tokenizer = make_tokenizer()
    return adapt(make_model("bert"), tokenizer), TextClassification(tokenizer, TEXTS, TEXTS, **settings)


def looked_twice(model, task, mode="memory", budget=BIG, deepest=3, place=None):
    """Fill the cache with each example alone, then look at a batch of them that it has not met."""
    cache = Cache(model, task, mode, budget, CPU, place)
    with model.frozen():
        for row in range(len(task.train)):
            cache.look([row], task.collate([task.train[row]]), deepest)
        rows = [2, 0, 1]
        batch = task.collate([task.train[row] for row in rows])
        return cache, cache.look(rows, batch, deepest), look(model, task, batch)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("mode", ["memory", "disk"])
def test_what_is_remembered_is_what_is_seen_in_another_batch(side, unit, mode, tmp_path):
    model, task = text_subject(side=side, unit=unit)
    cache, seen, plain = looked_twice(model, task, mode, place=tmp_path)
    real = plain.batch.inputs["attention_mask"].bool()
    for name in model.sites.names:
        torch.testing.assert_close(seen.states[name][real], plain.states[name][real])
    (head,) = plain.original
    torch.testing.assert_close(seen.original[head].raw, plain.original[head].raw)
    assert type(seen.states).__name__ == "Remembered"
    keep = torch.rand(plain.batch.valid.shape)
    for site in model.sites:
        one, other = (some.masked_at(site.name, keep, torch.ones(16))[head].raw for some in (seen, plain))
        torch.testing.assert_close(one, other)
    cache.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "head"), [(SpanAnswer, "qa"), (TokenClassification, "tokens")])
def test_answers_for_every_position_are_laid_out_over_another_batch(kind, head):
    from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification

    from tiny_text import SIZES

    torch.manual_seed(0)
    made = {"qa": BertForQuestionAnswering, "tokens": BertForTokenClassification}[head](BertConfig(**SIZES)).eval()
    tokenizer = make_tokenizer()
    texts = [("what ?", text) for text in TEXTS] if kind is SpanAnswer else TEXTS
    model, task = adapt(made, tokenizer), kind(tokenizer, texts, texts)
    _, seen, plain = looked_twice(model, task)
    assert seen.original.keys() == plain.original.keys()
    for name, expected in plain.original.items():
        got = seen.original[name]
        where = slice(None) if expected.real is None else expected.real
        torch.testing.assert_close(got.raw[where], expected.raw[where])
        assert (got.real is None) == (expected.real is None)


def blocks_run(model):
    return [block.calls for block in model.model.blocks]


@pytest.mark.parametrize(
    ("budget", "deepest", "expected"), [(BIG, 1, [0, 0]), (3000, 1, [1, 0]), (3000, 2, [1, 1]), (1, 1, [1, 1])]
)
def test_what_is_known_is_not_computed_again(budget, deepest, expected, caplog):
    model, task = evidence_model(), evidence_task()
    rows = list(range(8))
    with caplog.at_level(logging.WARNING), model.frozen():
        cache = Cache(model, task, "memory", budget, CPU)
        cache.look(rows, task.collate(rows), deepest)
        before = blocks_run(model)
        cache.look(rows[::-1], task.collate(rows[::-1]), deepest)
    assert [now - then for now, then in zip(blocks_run(model), before, strict=True)] == expected
    said = {BIG: "", 3000: "only predictions are remembered", 1: "more than cache_budget (1 bytes)"}[budget]
    assert said in caplog.text and bool(said) == bool(caplog.text)


@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize(
    "settings", [{"cache": "memory"}, {"cache": "disk"}, {"cache": "memory", "cache_budget": 3000}]
)
def test_a_fit_with_a_cache_ends_where_one_without_it_does(kind, settings, tmp_path):
    common = {"kind": kind, "steps": 40, "depths_per_step": 2}
    plain = fit(evidence_model(), evidence_task(), small_recipe(**common))
    model = evidence_model()
    cached = fit(model, evidence_task(), small_recipe(**common, **settings), directory=tmp_path)
    assert sum(blocks_run(model)) < sum(blocks_run(plain.model))
    for one, other in zip(plain.probe.parameters(), cached.probe.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


class Noisy(TensorTask):
    """Draws noise into its batches, and may say so."""

    def collate(self, examples):
        batch = super().collate(examples)
        if not self.augments:
            batch.inputs["tokens"].copy_(torch.randint(0, 4, batch.valid.shape))
        return batch


@pytest.mark.parametrize("declared", [True, False])
def test_augmented_data_are_not_remembered(declared, caplog):
    plain = evidence_task()
    model, task = evidence_model(), Noisy(plain.inputs, plain.valid, "bernoulli")
    task.augments = declared
    with caplog.at_level(logging.WARNING):
        cache = Cache(model, task, "memory", BIG, CPU)
    assert not cache.heads
    assert ("draws its batches at random" if declared else "another 'tokens' of the same example") in caplog.text


class Flipping(TensorTask):
    """Begins to draw its batches at random after some of them, as a rare augmentation may, and says nothing."""

    made, calm = 0, 12

    def collate(self, examples):
        batch, self.made = super().collate(examples), self.made + 1
        if self.made > self.calm:
            batch.inputs["tokens"].copy_(batch.inputs["tokens"].flip(1) * batch.valid)
        return batch


def test_an_augmentation_that_shows_only_later_ends_the_remembering(caplog):
    plain = evidence_task()
    model, task = evidence_model(), Flipping(plain.inputs, plain.valid, "bernoulli")
    rows = list(range(8))
    with caplog.at_level(logging.WARNING), model.frozen():
        cache = Cache(model, task, "memory", BIG, CPU)
        cache.look(rows, task.collate(rows), 1)
        task.made = task.calm
        batch = task.collate(rows)
        seen, expected = cache.look(rows, batch, 1), look(model, task, batch)
    torch.testing.assert_close(seen.original["output"].raw, expected.original["output"].raw)
    assert not cache.heads and "another input of the same example" in caplog.text


@pytest.mark.parametrize(("dtype", "height"), [(torch.float32, 64), (torch.float64, 32)])
def test_a_flipped_image_is_another_one(dtype, height):
    images = torch.linspace(0, 1, 9)[:8].repeat(2, 3, height, 8).to(dtype)  # numbers with few bits
    real = torch.ones(2, 4, dtype=torch.bool)
    whole, flipped = (marks_of([some], real, padded=False) for some in (images, images.flip(3)))
    assert (whole != flipped).all() and (whole == marks_of([images.clone()], real, padded=False)).all()


def test_an_example_is_known_again_whatever_it_is_padded_to():
    ids, real = torch.tensor([[5, 0, 7, 9]]), torch.tensor([[True, True, True, False]])
    wider, left = torch.tensor([[3, 3, 3, 5, 0, 7]]), torch.tensor([[False, False, False, True, True, True]])
    assert marks_of([ids], real, padded=True) == marks_of([wider], left, padded=True)


@pytest.mark.parametrize("other", [[5, 0, 8], [0, 5, 7], [7, 0, 5], [5, 7, 0], [-5, 0, 7]])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32, torch.bfloat16, torch.float64])
def test_another_number_or_place_is_another_example(other, dtype):
    one, two = torch.tensor([[5, 0, 7]], dtype=dtype), torch.tensor([other], dtype=dtype)
    real = torch.ones(1, 3, dtype=torch.bool)
    assert marks_of([one], real, padded=True) != marks_of([two], real, padded=True)
    assert marks_of([one, two], real, padded=True) != marks_of([two, one], real, padded=True)
    wide = one.unsqueeze(-1), two.unsqueeze(-1)  # with features at each position
    assert marks_of([wide[0]], real, padded=True) != marks_of([wide[1]], real, padded=True)


def test_the_same_example_among_others_is_the_same_example(caplog):
    model, task = text_subject()
    with caplog.at_level(logging.WARNING):
        cache, *_ = looked_twice(model, task)
    assert cache.heads and not caplog.text


def test_a_model_in_low_precision_may_differ_by_its_rounding(monkeypatch):
    model, task = text_subject()
    rounding = [0.0]
    last = model.sites[-1].module

    def round_off(module, given, found):  # a state in float32 of numbers that were computed in bfloat16
        rounding[0] += 0.01
        return found + rounding[0]

    last.register_forward_hook(round_off)
    assert not Cache(model, task, "memory", BIG, CPU).heads
    with model.computing(torch.bfloat16):
        assert Cache(model, task, "memory", BIG, CPU).heads


def test_a_cache_on_disk_takes_no_more_than_is_free_there(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("diffmask.training.cache.disk_usage", lambda _: type("Usage", (), {"free": 3000}))
    with caplog.at_level(logging.WARNING):
        cache = Cache(evidence_model(), evidence_task(), "disk", BIG, CPU, tmp_path)
    assert cache.heads and not cache.states and "more than is free on its disk (2.93 KiB)" in caplog.text
    cache.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps the name of a file that is open")
def test_a_killed_fit_leaves_no_large_files_behind(tmp_path):
    model, task = evidence_model(), evidence_task()
    cache = Cache(model, task, "disk", BIG, CPU, tmp_path)
    with model.frozen():
        cache.look([0, 1], task.collate([0, 1]), 2)
    assert cache.states and not [path for path in tmp_path.rglob("*") if path.is_file()]
    cache.close()


def test_processes_that_share_a_model_use_what_is_known_only_if_all_of_them_know_it():
    model, task, asked = evidence_model(), evidence_task(), []
    cache = Cache(model, task, "memory", BIG, CPU, agree=lambda mine: asked.append(mine) or False)
    assert asked == [True] and not cache.heads  # another process cannot remember anything
    answers = [True, True, False, False, True]
    with model.frozen():
        cache = Cache(model, task, "memory", BIG, CPU, agree=lambda mine: mine and answers.pop(0))
        batch, before = task.collate([0, 1]), blocks_run(model)
        for _ in range(4):
            cache.look([0, 1], batch, 2)
    assert not answers and [now - then for now, then in zip(blocks_run(model), before, strict=True)] == [3, 3]


@pytest.mark.parametrize("settings", [{"precision": "bf16"}, {"recompute": True}], ids=str)
def test_a_fit_in_low_precision_or_without_activations_ends_nearby(settings):
    common = {"kind": "hidden", "steps": 30}
    model, task = evidence_model(), evidence_task()
    plain, other = (fit(model, task, small_recipe(**common, **more)) for more in ({}, settings))
    exact = "recompute" in settings
    for one, two in zip(plain.probe.parameters(), other.probe.parameters(), strict=True):
        assert two.dtype == torch.float32
        torch.testing.assert_close(one, two, **({} if exact else {"rtol": 0.3, "atol": 0.1}))


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("as loaded", torch.float32)])
def test_a_fit_in_low_precision_computes_in_it(precision, dtype):
    model, seen = evidence_model(), set()
    model.model.answer.register_forward_hook(lambda module, given, found: seen.add(found.dtype))
    fit(model, evidence_task(), small_recipe(steps=2, precision=precision))
    assert seen == {dtype}


def test_a_fit_without_activations_runs_its_blocks_more_often():
    plain, other = evidence_model(), evidence_model()
    for model, recompute in ((plain, False), (other, True)):
        fit(model, evidence_task(), small_recipe(steps=10, recompute=recompute))
    assert all(more > once for more, once in zip(blocks_run(other), blocks_run(plain), strict=True))


def test_recomputing_keeps_less_and_gives_the_same_gradient():
    model, task = text_subject()
    batch = task.collate(TEXTS)
    kept, slopes = [], []
    for wanted in (False, True):
        with model.frozen(), model.recomputing(wanted):
            seen, sizes = look(model, task, batch), []
            state = seen.states[model.sites[0].name].clone().requires_grad_(True)
            with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: s.append(t.numel()) or t, lambda t: t):
                from diffmask.models.sites import resume

                with resume(model.sites[0], state, seen.states):
                    total = model(batch).logits.sum()
            total.backward()
        kept.append(sum(sizes))
        slopes.append(state.grad)
    torch.testing.assert_close(*slopes)
    assert kept[1] < kept[0] / 2


def test_a_model_whose_states_depend_on_the_padding_is_not_remembered(caplog):
    tokenizer = make_tokenizer()
    model = adapt(make_model("bert"), tokenizer)  # counts positions from the left, padding included
    task = pad_left(TextClassification(tokenizer, TEXTS, TEXTS))
    with caplog.at_level(logging.WARNING):
        assert not Cache(model, task, "memory", BIG, CPU).heads
    assert "depends on the padding of its batch" in caplog.text


def test_blocks_that_are_no_sites_are_remembered_with_what_stands_before_their_patches(caplog):
    def read(output):
        return {"label": Categorical(output.logits)}

    pictures = TensorTask({"pixel_values": images(count=24)}, torch.ones(24, 15, dtype=torch.bool), read)
    settings = {"steps": 12, "batch_size": 8, "depths_per_step": 0, "ablation_steps": 4, "hidden": 8}

    def fit_ends(**more):
        model = build("ViTForImageClassification")
        names = adapt(model).sites.names
        return fit(adapt(model, sites=[names[0], names[-1]]), pictures, recipe("vision", **settings, **more))

    plain, cached = fit_ends(), fit_ends(cache="memory")
    assert plain.model.passed and "not remembered" not in caplog.text
    for one, other in zip(plain.probe.parameters(), cached.probe.parameters(), strict=True):
        torch.testing.assert_close(one, other)
