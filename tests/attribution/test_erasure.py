"""Exact erasure finds what brute force finds: of any model, with shared states where they help, and within limits."""

from dataclasses import replace
from itertools import combinations
from math import comb

import pytest
import torch
from torch import nn

from diffmask.attribution.erasure import ExactErasure, _duration, search
from diffmask.errors import SettingError
from diffmask.objective.constraint import Constraint
from diffmask.objective.divergence import agreement, divergence
from diffmask.training.sharing import Sharing, trial_of
from diffmask.training.step import look
from diffmask.training.trial import Enumeration, Example
from diffmask.types import Batch
from recurrent_models import LAYERS, ask_reader

WRITTEN = ["a funny movie .", "enjoyable", "a enjoyable"]


def smallest_by_hand(question, row, margin):
    """Try every set of units of one example, one at a time."""
    seen = look(question.model, question.task, question.task.collate(WRITTEN[row : row + 1]))
    count = int(seen.batch.valid.sum())
    units = seen.batch.valid[0].nonzero().flatten().tolist()
    for size in range(1, count + 1):
        for chosen in combinations(units, size):
            keep = torch.zeros(seen.batch.valid.shape)
            keep[0, list(chosen)] = 1
            masked = seen.masked_at(question.site_name, keep, question.baseline)
            if divergence(seen.original, masked) <= margin and agreement(seen.original, masked) == 1:
                return size
    return count


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize(("kind", "unit"), [("bert", "word"), ("bert", "token"), ("llama", "word")])
def test_the_smallest_set_of_words_is_the_one_found_by_trying_each(ask_text, kind, unit, depth):
    texts = WRITTEN if kind == "bert" else WRITTEN[::2]
    question = ask_text(texts, depth, kind, unit=unit)
    found = ExactErasure(margin=0.2)(question)
    assert found.shape == question.batch.valid.shape and (found[~question.batch.valid] == 0).all()
    with torch.no_grad(), question.model.frozen():
        for row, text in enumerate(texts):
            assert int(found[row].sum()) == smallest_by_hand(question, WRITTEN.index(text), 0.2)


def test_one_example_many_times_over_takes_along_all_that_belongs_to_it():
    inputs = {"ids": torch.arange(6).view(2, 3), "table": torch.zeros(7), "flag": "yes"}
    valid, place = torch.tensor([[True, True], [True, False]]), torch.tensor([[0, 1, 1], [-1, 0, 0]])
    batch = Batch(inputs, valid, place, torch.tensor([2, 1])).example(1).repeat(3)
    assert batch.inputs["ids"].tolist() == [[3, 4, 5]] * 3 and batch.inputs["flag"] == "yes"
    assert batch.valid.tolist() == [[True, False]] * 3 and len(batch.inputs["table"]) == 7
    assert batch.place.tolist() == [[-1, 0, 0]] * 3 and batch.ask.tolist() == [1, 1, 1]


def test_one_example_of_tokens_has_no_places(ask_text):
    batch = ask_text(WRITTEN).batch.example(0).repeat(2)
    assert batch.place is None and batch.ask is None and len(batch) == 2


def every_optimum_by_hand(question, row, how):
    """Try every set of one example, one at a time, and return all of the smallest that hold."""
    seen = look(question.model, question.task, question.batch.example(row))
    units = question.batch.valid[row].nonzero().flatten().tolist()
    for size in range(how.smallest, len(units) + 1):
        held = []
        for chosen in combinations(units, size):
            keep = torch.zeros(seen.batch.valid.shape)
            keep[0, list(chosen)] = 1
            masked = seen.masked_at(question.site_name, keep, question.baseline)
            close = divergence(seen.original, masked, how.measure) <= how.margin
            if close and (not how.decision or agreement(seen.original, masked) == 1):
                held.append(keep[0].bool().tolist())
        if held:
            return held
    return [question.batch.valid[row].tolist()]


WAYS = {
    "margin and decision": ExactErasure(margin=0.3, batch_size=4),
    "margin alone": ExactErasure(margin=0.3, decision=False, smallest=0, batch_size=4),
    "decision alone": ExactErasure(margin=torch.inf, smallest=0, batch_size=4),
    "a tight margin": ExactErasure(margin=0.01, measure="js", batch_size=4),
}


def check_all_optima(question, how):
    with torch.no_grad(), question.model.frozen():
        expected = [every_optimum_by_hand(question, row, how) for row in range(len(question.batch))]
    for found, optima in zip(search(question, how, every=True), expected, strict=True):
        assert found.sets.tolist() == optima and found.complete
        assert found.size == found.least == sum(optima[0])
    first = torch.tensor([optima[0] for optima in expected]).float()
    assert torch.equal(how(question), first)


@pytest.mark.parametrize("layer", LAYERS)
def test_of_a_recurrent_model_all_optima_are_those_of_brute_force(layer):
    check_all_optima(ask_reader(layer, lengths=(5, 4, 1), padding=2), WAYS["margin alone"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layer", ["gru", "lstm"])
def test_so_they_are_for_any_constraint(layer, way):
    check_all_optima(ask_reader(layer, lengths=(8 if way == "a tight margin" else 5,)), WAYS[way])


@pytest.mark.parametrize("read", ["end", "mean"])
def test_so_they_are_where_padding_is_read_or_all_states_are(read):
    check_all_optima(ask_reader("gru", read, lengths=(6, 3), padding=2, seed=1), WAYS["margin and decision"])


@pytest.mark.parametrize("kind", ["bert", "llama", "lstm"])
@pytest.mark.parametrize("unit", ["word", "token"])
@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_so_they_are_for_texts_with_words_of_several_tokens_and_padding_on_either_side(
    ask_text, kind, unit, padding_side
):
    texts = WRITTEN[::2] if kind == "llama" else WRITTEN
    question = ask_text(texts, 0, kind, padding_side=padding_side, unit=unit)
    check_all_optima(question, ExactErasure(margin=0.2, batch_size=4))


def kind_of_trial(question, row=0, batch_size=4):
    example = Example(
        *(question.model, question.task, question.batch, row, question.site_name, question.baseline, Constraint())
    )
    with torch.no_grad(), question.model.frozen():
        return type(trial_of(example, batch_size))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("read", ["last", "end"])
def test_sets_are_shared_where_a_recurrent_model_answers_from_its_last_state(layer, read):
    assert kind_of_trial(ask_reader(layer, read, padding=2)) is Sharing


def test_sets_are_not_shared_where_that_would_be_wrong(ask_text, caplog):
    both = nn.GRU(5, 6, bidirectional=True, batch_first=True)
    assert kind_of_trial(ask_reader(both)) is Enumeration
    assert kind_of_trial(ask_text(WRITTEN, 0, "bert")) is Enumeration
    assert kind_of_trial(ask_text(WRITTEN, 1, "lstm")) is Enumeration  # at the output of the layer, not before it
    with caplog.at_level("INFO"):
        assert kind_of_trial(ask_reader("gru", "mean")) is Enumeration
    assert "Reader does not answer from the last state of its recurrent layer" in caplog.text


def test_few_sets_are_not_worth_sharing():
    assert kind_of_trial(ask_reader(lengths=(5,)), batch_size=32) is Enumeration


def test_a_model_in_half_precision_is_searched_as_it_is():
    question = ask_reader(lengths=(5, 3))
    question.model.model.bfloat16()
    check_all_optima(question, ExactErasure(margin=0.3, batch_size=4))


@pytest.mark.parametrize("read", ["last", "mean"])
def test_a_limit_stops_the_search_and_says_so(read):
    question = ask_reader("gru", read, lengths=(8,))
    how = ExactErasure(margin=1e-6, smallest=0, limit=20, batch_size=4)
    (stopped,) = search(question, how)
    assert not stopped.complete and stopped.size == 8 and torch.equal(stopped.sets, question.batch.valid)
    assert 20 <= stopped.tried < 256
    assert sum(comb(8, size) for size in range(stopped.least)) <= stopped.tried
    (whole,) = search(question, replace(how, limit=255))  # every set but the whole example, which needs no try
    assert whole.complete and whole.tried == 255


def test_it_computes_as_exactly_as_it_can_and_puts_the_precision_back(monkeypatch):
    question, seen = ask_reader(lengths=(3,)), set()
    forward = type(question.model.model).forward

    def watched(self, *args, **named):
        seen.add((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return forward(self, *args, **named)

    monkeypatch.setattr(type(question.model.model), "forward", watched)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    ExactErasure()(question)
    assert seen == {("highest", False)} and torch.backends.cudnn.allow_tf32


def test_a_search_that_ends_within_its_limit_is_complete():
    question = ask_reader(lengths=(7, 4))
    how = ExactErasure(margin=0.3, batch_size=4)
    for free, limited in zip(search(question, how), search(question, replace(how, limit=10_000)), strict=True):
        assert torch.equal(free.sets, limited.sets) and limited.complete and free.tried == limited.tried


def test_a_search_that_would_not_end_says_how_long_it_takes_and_what_to_do():
    question = ask_reader(lengths=(30,))
    found = r"up to 2\^30 sets for an example of 30 units, 1,073,741,824 of them, which takes about [\d,]+ \w+ at the "
    with pytest.raises(SettingError, match=found + r"[\d,]+ sets a second of a first batch; it stops at 20\. Raise "):
        ExactErasure()(question)
    with pytest.raises(SettingError, match="set a limit on the sets tried, or use method 'greedy' or 'per-example'"):
        ExactErasure()(question)
    (found,) = search(question, ExactErasure(limit=50))
    assert found.tried >= 50 or found.complete


def test_a_text_far_too_long_is_refused_in_few_words():
    with pytest.raises(SettingError, match=r"up to 2\^70 sets .* 1e\+21 of them, which takes about [\d,e+]+ years at "):
        ExactErasure()(ask_reader("gru", "mean", lengths=(70,)))


def test_the_first_set_alone_is_given_unless_every_one_is_asked_for():
    question = ask_reader(lengths=(6, 5, 6, 4, 5))
    how = ExactErasure(margin=torch.inf, batch_size=4)
    firsts, everies = search(question, how), search(question, how, every=True)
    assert any(len(every.sets) > 1 for every in everies)
    for first, every in zip(firsts, everies, strict=True):
        assert torch.equal(first.sets, every.sets[:1])


def test_a_constraint_that_forbids_nothing_is_refused():
    with pytest.raises(SettingError, match="forbid nothing"):
        ExactErasure(margin=torch.inf, decision=False)(ask_reader())


def test_durations_are_said_in_the_largest_unit_that_fits():
    assert [_duration(s) for s in (0.1, 90, 600, 7200, 1e6, 1e9)] == [
        *("1 seconds", "90 seconds", "10 minutes", "2 hours", "12 days", "32 years")
    ]
