"""The sentiment study's plan, its figures from rows, and its groups of words, all counted by hand."""

from itertools import product

import pytest
import torch

from diffmask.errors import DataError
from diffmask.studies.sentiment import SMALL, Job, Size, check_first, config, fit_seconds, is_main, plan
from diffmask.studies.sentiment_figures import kept_layers, word_at
from diffmask.studies.sentiment_summary import summarise
from diffmask.tasks.sst import parse_tree

STABILITY = {"input": {"mean": 0.03}, "hidden": {"mean": 0.05}}


def row(kind, seed, depth, masked, divergence=0.1, f1=0.5, margin=0.1, change=""):
    found = {"kind": kind, "seed": seed, "depth": depth, "margin": margin, "change": change, "masked": masked}
    certified = {"certified_masked": masked + 0.05, "certified_divergence": divergence / 2, "certified_f1": 0.52}
    return {**found, "divergence": divergence, "f1": f1, "f1_original": 0.52, **certified}


ROWS = [
    *(row("input", 0, 0, 0.2, f1=0.52), row("input", 0, 1, 0.4, f1=0.50)),
    *(row("input", 1, 0, 0.4, f1=0.49), row("input", 1, 1, 0.6, f1=0.47, divergence=0.12)),
    *(row("hidden", 0, 0, 0.1, f1=0.52), row("hidden", 0, 1, 0.9, f1=0.52, divergence=0.08)),
    *(row("hidden", 1, 0, 0.3, f1=0.52, divergence=0.31), row("hidden", 1, 1, 0.7, f1=0.52, divergence=0.5)),
    row("input", 0, 0, 0.99, divergence=0.49, f1=0.1, margin=0.5),
    row("input", 0, 0, 0.01, divergence=0.9, f1=0.1, change="coupled"),
]


def test_the_summary_has_means_over_seeds_and_depths_and_the_worst_seed():
    whole = summarise(ROWS, STABILITY)
    assert (whole["seeds"], whole["base_f1"]) == (2, pytest.approx(52))
    assert (whole["input_std"], whole["hidden_std"]) == (0.03, 0.05)
    assert (whole["input_masked"], whole["hidden_masked"]) == (pytest.approx(0.45), pytest.approx(0.55))  # certified
    assert (whole["kl_max"], whole["f1_drop_max"]) == (0.25, 0)
    found = whole["one_threshold"]
    assert (found["input_masked"], found["hidden_masked"]) == (pytest.approx(0.4), pytest.approx(0.5))
    assert found["input_masked_by_depth"] == pytest.approx([0.3, 0.5])
    assert found["hidden_masked_by_depth"] == pytest.approx([0.2, 0.8])
    assert found["input_kl_by_depth"] == pytest.approx([0.1, 0.11])
    assert found["hidden_kl_by_depth"] == pytest.approx([0.205, 0.29])
    assert found["kl_max"] == 0.5
    assert found["f1_drop_max"] == pytest.approx(4)  # input, seed 1: three points at one depth and five at the other


def test_a_probe_beyond_three_margins_has_diverged_and_counts_once():
    assert summarise(ROWS, STABILITY)["diverged"] == 1
    assert summarise([row for row in ROWS if row["divergence"] <= 0.3], STABILITY)["diverged"] == 0


def test_rows_of_a_larger_margin_and_of_ablations_do_not_count():
    assert summarise(ROWS, STABILITY) == summarise(ROWS[:-2], STABILITY)


def test_every_seed_gets_a_probe_of_both_kinds_and_the_first_another_margin_and_the_ablations():
    jobs = plan(4)
    main, other = ([job for job in jobs if is_main(job) == wanted] for wanted in (True, False))
    assert sorted((job.kind, job.seed) for job in main) == sorted(product(("input", "hidden"), range(4)))
    assert [job.name for job in other] == [
        *("input-0.5-0", "hidden-0.5-0"),
        *(f"{kind}-0.1-{change}-0" for change in ("no-baseline", "network") for kind in ("input", "hidden")),
        "input-0.1-coupled-0",
    ]
    linear = [config(job, Size()).probe.voter == "linear" for job in jobs]
    assert linear == [job.change != "network" for job in jobs]
    assert len({job.name for job in jobs}) == len(jobs)


def test_without_the_first_seed_of_each_kind_there_is_nothing_to_show():
    check_first([Job(0, "hidden"), Job(0, "input"), Job(3, "input")])
    with pytest.raises(DataError, match=r"hidden-0.1-0 is not finished, .*: finish it with --jobs 1"):
        check_first([Job(0, "input"), Job(1, "hidden")])


def test_the_fits_of_a_seed_are_timed_together_and_the_slowest_seed_counts():
    jobs = [Job(0, "hidden"), Job(0, "input"), Job(1, "hidden"), Job(1, "input"), Job(0, "input", 0.5)]
    done = {number: {"fit_seconds": seconds} for number, seconds in enumerate([10.0, 40.0, 30.0, 25.0, 99.0])}
    assert fit_seconds(jobs, done) == {"input": 40.0, "hidden": 30.0, "both": 55.0}
    assert fit_seconds(jobs, {**done, 1: {}}) is None  # taken over from code without a clock


@pytest.mark.parametrize(("kind", "steps"), [("input", 7), ("hidden", 5)])
def test_a_job_is_fitted_with_its_kind_margin_seed_and_steps(kind, steps):
    found = config(Job(3, kind, 0.5), Size(input_steps=7, hidden_steps=5, ablation_steps=2))
    assert (found.probe.kind, found.objective.margin, found.seed, found.steps) == (kind, 0.5, 3, steps)
    assert found.probe.baseline.ablation_steps == 2 and found.calibrate


def test_a_small_study_is_small():
    assert SMALL.input_steps < 100 and SMALL.sentences == 100


def test_every_character_belongs_to_the_word_it_is_in_or_after():
    sentence = parse_tree("(3 (2 A) (4 (3 gem) (2 .)))")
    assert sentence.text == "A gem ."
    assert [word_at(sentence, place) for place in range(len(sentence.text))] == [0, 0, 1, 1, 1, 1, 2]


def test_words_are_found_by_the_offsets_a_tokenizer_gives():
    sentence = parse_tree("(3 (2 -LRB-) (4 (3 writer\\/director) (2 -RRB-)))")
    words = ["(", "writer/director", ")"]
    assert [words[word_at(sentence, sentence.text.index(piece))] for piece in ("(", "/", "director", ")")] == [
        *("(", "writer/director", "writer/director", ")")
    ]


def test_kept_layers_are_counted_by_sentiment_and_by_part_of_speech():
    probability = torch.tensor([[1.0, 0.5, 0.0, 1.0, 1.0], [1.0, 0.0, 0.5, 0.0, 1.0]])  # 2, 0.5, 0.5, 1 and 2 layers
    roles = [(None, "[CLS]"), ("neutral", "DET"), ("positive", "NOUN"), ("neutral", "NOUN"), (None, "[CLS]")]
    found = kept_layers(probability, roles)
    assert found["by_sentiment"] == {"neutral": {"mean": 0.75, "std": pytest.approx(0.125**0.5), "count": 2}}
    assert found["by_part_of_speech"] == {
        "[CLS]": {"mean": 2.0, "std": 0.0, "count": 2},
        "NOUN": {"mean": 0.75, "std": pytest.approx(0.125**0.5), "count": 2},
    }


def test_a_word_without_a_part_of_speech_counts_for_its_sentiment_alone():
    found = kept_layers(torch.ones(3, 2), [("positive", None), ("positive", "ADJ")])
    assert found["by_sentiment"]["positive"]["count"] == 2 and found["by_part_of_speech"] == {}


def test_every_unit_needs_a_role():
    with pytest.raises(ValueError, match="argument"):
        kept_layers(torch.ones(2, 3), [("positive", "ADJ")])
