"""Comparisons against a model whose units add up, and their regression against one written out row by row."""

import pytest
import torch

from diffmask.attribution.comparisons import DOUBTS, Comparisons, correction, draw_pairs
from diffmask.attribution.method import Question
from diffmask.errors import SettingError, UnknownNameError
from diffmask.training.fit import fit
from toys import EVIDENCE, evidence_model, evidence_task, small_recipe


def ask(rows=range(6), task=None):
    task = task or evidence_task()
    return Question(evidence_model(), task, task.collate(rows), 1, torch.tensor([0.5, 0.5, 0.0, 0.0]))


def spread(values):
    return values - values.mean()


@pytest.mark.parametrize("sizes", ["even", "half"])
def test_where_units_add_up_in_log_odds_they_are_worth_what_they_add(sizes):
    question = ask(range(12))
    method = Comparisons(pairs=80, most=100.0, sizes=sizes)
    found = method(question), method.signed(question)
    for row in range(12):
        real = question.batch.valid[row]
        count = int(real.sum())
        evidence = EVIDENCE[question.batch.inputs["tokens"][row]][real]
        sign = 1 if evidence.sum() > 0 else -1
        expected = sign * spread(evidence) * count**0.5
        torch.testing.assert_close(found[1][row][real], expected, atol=0.3, rtol=0.1)
        assert (found[0][row][~real] == 0).all() and ((found[0][row][real] > 0) & (found[0][row][real] < 1)).all()


def ridge(sides, missed):
    """One example's regression: every penalty solved as a linear system, the one with the best score taken."""
    gram, count = sides.T @ sides, len(missed)
    scale = torch.linalg.eigvalsh(gram)[-1]
    tried = []
    for doubt in DOUBTS * scale:
        hat = sides @ torch.linalg.inv(gram + doubt * torch.eye(len(gram), dtype=torch.double)) @ sides.T
        tried.append(((missed - hat @ missed).square().sum() / (count - hat.trace()) ** 2, doubt))
    doubt = min(tried, key=lambda pair: float(pair[0]))[1]  # no two are alike here
    return torch.linalg.solve(gram + doubt * torch.eye(len(gram), dtype=torch.double), sides.T @ missed)


def test_the_correction_is_the_ridge_regression_written_out():
    draw = torch.Generator().manual_seed(0)
    sides = torch.randint(-1, 2, (30, 4, 7), generator=draw).double()
    truth = torch.randn(4, 7, generator=draw).double()
    noise = torch.randn(30, 4, generator=draw).double()
    missed = torch.einsum("pbu,bu->pb", sides, truth) + torch.tensor([0.01, 0.5, 3.0, 30.0]).double() * noise
    found = correction(sides, missed)
    for row in range(4):
        torch.testing.assert_close(found[row], ridge(sides[:, row], missed[:, row]), atol=1e-6, rtol=1e-6)


def test_pairs_are_of_one_size_and_every_size_comes():
    batch = ask(range(20)).batch
    first, second = draw_pairs(batch, 60, 0)
    assert torch.equal(first.sum(-1), second.sum(-1)) and not (first[:, ~batch.valid]).any()
    real = batch.valid.sum(1)
    for row in range(20):
        assert set(first[:, row].sum(-1).int().tolist()) == set(range(1, max(2, int(real[row]))))


@pytest.fixture(scope="module")
def ranked():
    config = small_recipe("ranking", kind="input", hidden=8, steps=150, measure="log-odds")
    return fit(evidence_model(), evidence_task(), config)


def test_with_few_comparisons_a_good_ranker_decides_and_with_many_a_bad_one_does_not(ranked, monkeypatch):
    question = ask(range(12))
    real, truth = question.batch.valid, Comparisons(pairs=400).signed(question)

    def off(method):
        return float((method.signed(question) - truth)[real].abs().mean())

    monkeypatch.setattr(type(ranked.probe), "rank", lambda *_: 0.9 * truth)
    assert off(Comparisons(ranked.probe, pairs=3)) < 0.5 * off(Comparisons(pairs=3))
    monkeypatch.setattr(type(ranked.probe), "rank", lambda *_: -truth)
    assert off(Comparisons(ranked.probe, pairs=200)) < 0.2 * float(truth[real].abs().mean())


def test_neither_batch_mates_nor_the_size_of_a_pass_matter(ranked):
    method = Comparisons(ranked.probe, pairs=20)
    whole = method(ask(range(5)))
    for row in range(5):
        torch.testing.assert_close(method(ask([row]))[0], whole[row], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(Comparisons(ranked.probe, pairs=20, batch_size=1)(ask(range(5))), whole)


def test_an_example_of_one_unit_has_nothing_to_compare():
    task = evidence_task()
    single = next(row for row in range(400) if int(task.valid[row].sum()) == 1)
    assert float(Comparisons(pairs=4).signed(ask([single])).abs().max()) == 0


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"pairs": 0}, {"batch_size": 0}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            Comparisons(**wrong)
    with pytest.raises(UnknownNameError, match="log-odds"):
        Comparisons(measure="odds")
