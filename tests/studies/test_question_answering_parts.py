"""The question answering study's figures and curves from rows and masks made by hand."""

import pytest
import torch

from diffmask.studies.probing import Certified, Probed
from diffmask.studies.question_answering import MARGIN, Job, Size, config, summarise
from diffmask.studies.question_answering_figures import examples, kept_by_part, part_curves, prepare_tags
from diffmask.studies.question_answering_model import token_span
from diffmask.tasks import parts_of_speech
from diffmask.tasks.squad import Answered
from tiny_text import make_tokenizer

# [CLS] what ? [SEP] a fun ##ny movie . [SEP], and [CLS] what [SEP] fast movie [SEP]
LONG = Answered("x", "what ?", "a funny movie .", ((2, 7),))
SHORT = Answered("x", "what", "fast movie", ((5, 10),))


def row(kind, seed, depth, value):
    keys = ("passage_masked", "predictions_kept", "question_kept", "passage_kept", "divergence")
    keys = (*keys, "certified_passage_masked")
    return {"kind": kind, "seed": seed, "depth": depth, "exact_original": 0.4, **dict.fromkeys(keys, value)}


ROWS = [
    *(row("input", 0, 0, 0.1), row("input", 0, 1, 0.3), row("input", 1, 0, 0.3), row("input", 1, 1, 0.5)),
    *(row("around", seed, depth, 0.9) for seed in range(2) for depth in range(2)),
    *(row("hidden", 0, 0, 0.2), row("hidden", 0, 1, 0.8), row("hidden", 1, 0, 0.4), row("hidden", 1, 1, 0.6)),
]


def test_the_summary_has_all_kinds_over_the_seeds():
    found = summarise(ROWS)
    assert (found["seeds"], found["exact"]) == (2, 0.4)
    for key in ("question_kept", "passage_kept", "predictions_kept", "divergence", "certified_passage_masked"):
        assert found[f"{key}_by_depth"] == pytest.approx([0.3, 0.7])
        assert found[f"input_{key}_by_depth"] == pytest.approx([0.2, 0.4])
        assert found[f"around_{key}_by_depth"] == pytest.approx([0.9, 0.9])
    for key in ("passage_masked_last", "predictions_kept_last"):
        assert (found[key], found[f"input_{key}"]) == (pytest.approx(0.7), pytest.approx(0.4))


@pytest.mark.parametrize(
    ("job", "kind", "steps"), [("input", "input", 7), ("around", "input", 7), ("hidden", "hidden", 5)]
)
def test_a_job_is_fitted_with_its_kind_seed_and_steps(job, kind, steps):
    found = config(Job(3, job), Size(input_steps=7, hidden_steps=5, ablation_steps=2))
    assert (found.probe.kind, found.objective.margin, found.seed, found.steps) == (kind, MARGIN, 3, steps)


def probed():
    """One depth that keeps everything, and one that keeps [CLS], "what" and each last token but the separator."""
    long = torch.tensor([[1.0] * 10, [1, 0.8, 0.2, 0, 0, 0.5, 0.1, 0.6, 0.9, 0]])
    short = torch.tensor([[1.0] * 6, [1, 0.6, 0, 0.4, 1, 0]])
    original = {"start": torch.tensor([7, 4]), "end": torch.tensor([5, 4])}  # the first ends before it starts
    masked = {name: found.expand(2, 2) for name, found in original.items()}
    return Probed([long, short], torch.zeros(2, 2), original, masked)


def certified():
    kept = [torch.ones(2, 10, dtype=torch.bool), torch.tensor([[1] * 6, [1, 1, 0, 0, 1, 0]], dtype=torch.bool)]
    return Certified(kept, torch.zeros(2, 2), {})


def test_curves_are_means_over_questions_of_means_over_their_tokens():
    gold, right = torch.tensor([[5, 6], [4, 4]]), torch.tensor([0.0, 1.0])
    found = part_curves(probed(), certified(), make_tokenizer(), [LONG, SHORT], gold, right)
    assert found["certified_passage_masked"] == pytest.approx([0, 0.25])
    assert found["question_kept"] == pytest.approx([1, (0.5 + 0.6) / 2])
    assert found["passage_kept"] == pytest.approx([1, ((0 + 0.5 + 0.1 + 0.6 + 0.9) / 5 + 0.7) / 2])
    assert found["passage_masked"] == pytest.approx([0, (3 / 5 + 1 / 2) / 2])  # a half is not kept
    assert found["predicted_answer_kept"] == pytest.approx([1, ((0.5 + 0.1 + 0.6) / 3 + 1) / 2])
    assert found["missed_answer_kept"] == pytest.approx([1, 0.3])


def test_where_no_answer_is_missed_there_is_no_curve_of_missed_ones():
    gold, right = torch.zeros(2, 2).long(), torch.ones(2)
    curves = part_curves(probed(), certified(), make_tokenizer(), [LONG, SHORT], gold, right)
    assert "missed_answer_kept" not in curves and len(curves) == 5


def test_layers_are_counted_by_part_of_speech_where_it_occurs_often():
    words = [(0, 4, "PRON"), (5, 6, "PUNCT")], [(0, 1, "DET"), (2, 7, "ADJ"), (8, 13, "NOUN")]
    said = Probed([torch.ones(3, 10)] * 5, torch.zeros(3, 5), {}, {})
    found = kept_by_part(said, make_tokenizer(), [LONG] * 5, [words] * 5)
    assert found == {"question": {}, "passage": {"ADJ": 3.0, "[SEP]": 3.0}}  # twice in each, so ten times


def test_examples_show_short_questions_with_their_tokens():
    (shown,) = examples(probed(), make_tokenizer(), [LONG, SHORT], torch.tensor([[5, 6], [4, 4]]))
    assert shown["tokens"] == ["[CLS]", "what", "[SEP]", "fast", "movie", "[SEP]"]
    assert shown["keep"][1] == [1, 0.6, 0, 0.4, 1, 0]
    assert (shown["predicted"], shown["gold"]) == ([4, 4], [4, 4])


def test_questions_and_passages_are_tagged_once_and_told_apart(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(parts_of_speech, "_tag", lambda texts: asked.extend(texts) or [[(0, 1, t)] for t in texts])
    found = prepare_tags([LONG, SHORT, LONG], tmp_path)
    assert found[0] == found[2] == ([(0, 1, "what ?")], [(0, 1, "a funny movie .")])
    assert sorted(asked) == ["a funny movie .", "fast movie", "what", "what ?"]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (((0, 1),), (4, 4)),
        (((2, 7),), (5, 6)),  # a word of two pieces
        (((2, 13),), (5, 7)),
        (((0, 15),), (4, 8)),
        (((8, 13), (0, 1)), (7, 7)),  # the first of several
    ],
)
def test_an_answer_is_found_among_the_tokens_of_the_passage(spans, expected):
    asked = Answered("x", "what ?", "a funny movie .", spans)
    assert token_span(make_tokenizer(), asked, 24) == expected


@pytest.mark.parametrize("span", [(8, 13), (2, 13)])
def test_an_answer_that_is_cut_off_or_cut_in_two_is_nowhere(span):
    assert token_span(make_tokenizer(), Answered("x", "what ?", "a funny movie .", (span,)), 8) == (0, 0)
