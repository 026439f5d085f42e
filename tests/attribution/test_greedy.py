"""Greedy erasure against a loop that runs the model once for every set it tries."""

from dataclasses import replace

import pytest
import torch

from diffmask.attribution.erasure import ExactErasure
from diffmask.attribution.greedy import GreedyErasure, least_harmful
from diffmask.attribution.method import Question
from diffmask.errors import SettingError
from diffmask.objective.divergence import agreement, divergence
from diffmask.training.step import look
from toys import EVIDENCE, evidence_model, evidence_task

TEXTS = ["a funny movie .", "enjoyable", "a fast enjoyable movie . funny"]


@torch.no_grad()
def slow(question, margin, beam, measure="kl"):
    """Search example by example; a set is what was removed, in order."""
    found = []
    with question.model.frozen():
        seen = look(question.model, question.task, question.batch)

        def harm_of(row, removed):
            keep = question.batch.valid.clone()
            for unit in removed:
                keep[row, unit] = False
            masked = seen.masked_at(question.site_name, keep, question.baseline)
            moved = float(divergence(seen.original, masked, measure)[row])
            return moved if moved <= margin and agreement(seen.original, masked)[row] == 1 else None

        for row, valid in enumerate(question.batch.valid):
            units, beams = valid.nonzero().flatten().tolist(), [()]
            while len(units) - len(beams[0]) > 1:
                harms = {}
                for removed in beams:
                    for unit in units:
                        if unit not in removed and not any({*removed, unit} == set(other) for other in harms):
                            harms[(*removed, unit)] = harm_of(row, (*removed, unit))
                good = sorted((harm, removed) for removed, harm in harms.items() if harm is not None)
                if not good:
                    break
                beams = [removed for _, removed in good[:beam]]
            found.append(beams[0])
    return found


@pytest.mark.parametrize(("margin", "beam", "measure"), [(0.5, 1, "kl"), (0.5, 3, "kl"), (0.1, 2, "js")])
@pytest.mark.parametrize(("kind", "unit"), [("bert", "token"), ("llama", "word"), ("lstm", "word")])
def test_it_agrees_with_a_slow_loop(ask_text, kind, unit, margin, beam, measure):
    question = ask_text(TEXTS, 1, kind, unit=unit)
    method = GreedyErasure(margin, measure, beam, batch_size=7)
    assert method.removed(question) == slow(question, margin, beam, measure)


def test_without_a_baseline_units_are_knocked_out_of_attention(ask_text):
    question = replace(ask_text(TEXTS, gate_special=False), baseline=None)
    assert GreedyErasure(0.5)(question).gt(0).sum() == question.batch.valid.sum()
    assert GreedyErasure(0.5, batch_size=5).removed(question) == slow(question, 0.5, 1)


def evidence_question(rows=range(40)):
    task = evidence_task()
    return Question(evidence_model(), task, task.collate(rows), 1, torch.tensor([0.5, 0.5, 0.0, 0.0]))


def test_what_is_left_always_keeps_the_prediction_and_no_unit_of_it_could_go():
    question = evidence_question()
    keep = GreedyErasure(0.1).keep(question)
    evidence = EVIDENCE[question.batch.inputs["tokens"]]
    original = torch.distributions.Bernoulli(logits=(evidence * question.batch.valid).sum(1))

    def holds(kept):
        masked = torch.distributions.Bernoulli(logits=(evidence * kept).sum(1))
        close = torch.distributions.kl_divergence(original, masked) <= 0.1
        return close & ((masked.logits > 0) == (original.logits > 0))

    assert bool(holds(keep).all()) and bool((keep.sum(1) >= 1).all()) and not bool((keep & ~question.batch.valid).any())
    for unit in range(keep.shape[1]):
        without = keep.clone()
        without[:, unit] = False
        assert not bool((holds(without) & keep[:, unit] & (keep.sum(1) > 1)).any())


@pytest.mark.parametrize("beam", [1, 4])
def test_it_never_keeps_less_than_the_exact_search(beam):
    question = evidence_question()
    greedy, exact = GreedyErasure(0.1, beam=beam).keep(question).sum(1), ExactErasure(0.1)(question).sum(1)
    assert bool((greedy >= exact).all()) and (greedy == exact).float().mean() > 0.5


def test_what_is_left_scores_one_and_the_rest_by_the_order_in_which_it_went(ask_text):
    question = ask_text(TEXTS)
    method = GreedyErasure(0.5)
    scores, keep = method(question), method.keep(question)
    assert (scores[keep] == 1).all() and (scores[question.batch.valid & ~keep] < 1).all()
    for row, removed in enumerate(method.removed(question)):
        values = scores[row][list(removed)]
        assert bool((values.diff() > 0).all()) and bool((values > 0).all())
        count = int(question.batch.valid[row].sum())
        assert values.tolist() == pytest.approx([place / count for place in range(1, len(removed) + 1)])
        assert len(removed) + int(keep[row].sum()) == int(question.batch.valid[row].sum())


def test_an_infinite_margin_asks_for_the_decision_alone_and_stops_at_the_smallest_set():
    question = evidence_question(rows=range(10))
    assert bool((GreedyErasure(float("inf")).keep(question).sum(1) >= 1).all())
    longest = question.batch.valid.sum(1)
    left = GreedyErasure(float("inf"), smallest=3).keep(question).sum(1)
    assert bool((left >= longest.clamp_max(3)).all())


def test_a_set_within_the_margin_that_changes_the_decision_does_not_hold(monkeypatch):
    question = evidence_question(rows=range(4))
    assert any(GreedyErasure(float("inf")).removed(question))
    monkeypatch.setattr("diffmask.attribution.greedy.agreement", lambda original, masked: torch.zeros(()))
    assert GreedyErasure(float("inf")).removed(question) == [()] * 4


@pytest.mark.parametrize("batch_size", [1, 5, 1000])
def test_the_size_of_a_pass_changes_nothing_and_bounds_its_rows(batch_size, monkeypatch):
    question = evidence_question(rows=range(6))
    expected, rows = GreedyErasure()(question), []
    forward = type(question.model.model).forward

    def counted(self, tokens, valid):
        rows.append(len(tokens))
        return forward(self, tokens, valid)

    monkeypatch.setattr(type(question.model.model), "forward", counted)
    torch.testing.assert_close(GreedyErasure(batch_size=batch_size)(question), expected)
    assert max(rows[1:]) <= batch_size  # the first pass looks at the batch as it is
    if batch_size == 1000:
        assert len(rows) - 1 <= int(question.batch.valid.sum(1).max())  # all units of all examples in one pass


def test_of_sets_that_harm_alike_the_first_goes():
    sets = [((0,), 0.1), ((1,), 1e-7), ((2,), 0.0), ((3,), torch.inf)]
    assert least_harmful(sets, 1) == [(1,)]
    assert least_harmful(sets, 9) == [(1,), (2,), (0,)]


@pytest.mark.parametrize("name", ["beam", "smallest", "batch_size"])
def test_a_count_of_nothing_is_refused(name):
    with pytest.raises(SettingError, match=f"{name} of greedy erasure must be at least 1, got 0"):
        GreedyErasure(**{name: 0})
