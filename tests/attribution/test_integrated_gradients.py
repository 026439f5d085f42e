from dataclasses import replace

import pytest
import torch

from diffmask.attribution.gradient_input import GradientInput
from diffmask.attribution.integrated_gradients import IntegratedGradients, rule
from diffmask.attribution.method import Question
from diffmask.errors import SettingError
from diffmask.objective.target import target
from diffmask.training.step import look
from toys import EVIDENCE, evidence_model, evidence_task


def what_changes(question, share=0.0):
    """Return the target as it is, less the target with every gated unit some share of the way from the baseline."""
    keep = torch.full(question.batch.valid.shape, share)
    with torch.no_grad(), question.model.frozen():
        seen = look(question.model, question.task, question.batch)
        masked = seen.masked_at(question.site_name, keep, question.baseline)
    return target(seen.original, seen.original) - target(masked, seen.original)


def test_on_evidence_units_share_the_whole_change_by_their_evidence():
    task = evidence_task()
    batch = task.collate(range(30))
    evidence = EVIDENCE[batch.inputs["tokens"]] * batch.valid
    total = evidence.sum(1, keepdim=True)
    gain = torch.nn.functional.logsigmoid(total.abs()) - torch.tensor(0.5).log()
    expected = torch.where(total == 0, -evidence / 2, evidence / total * gain)  # a tie is answered with no
    for depth in range(3):
        question = Question(evidence_model(), task, batch, depth, torch.tensor([0.5, 0.5, 0.0, 0.0]))
        torch.testing.assert_close(IntegratedGradients().signed(question), expected, rtol=1e-4, atol=1e-5)


def test_on_a_linear_model_one_point_suffices_and_it_is_gradient_times_input(linear):
    torch.testing.assert_close(IntegratedGradients(steps=1)(linear), GradientInput()(linear))


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("gate_special", [True, False])
@pytest.mark.parametrize("kind", ["bert", "llama", "lstm"])
def test_contributions_add_up_to_what_the_whole_way_changes(ask_text, kind, gate_special, unit):
    for depth in range(2 if kind == "lstm" else 4):
        question = ask_text(depth=depth, kind=kind, unit=unit, gate_special=gate_special)
        whole = what_changes(question)
        assert depth > 0 or (whole.abs() > 1e-2).any()  # higher up, all may by then stand where nothing is gated
        found = IntegratedGradients(steps=200).signed(question).sum(1)
        torch.testing.assert_close(found, whole, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("kind", "depth"), [("bert", 0), ("bert", 3), ("lstm", 0)])
def test_the_default_number_of_points_suffices_where_the_way_is_smooth(ask_text, kind, depth):
    question = ask_text(kind=kind, depth=depth)
    whole = what_changes(question)
    torch.testing.assert_close(IntegratedGradients().signed(question).sum(1), whole, rtol=1e-3, atol=1e-5)


def test_what_jumps_behind_a_layer_norm_at_a_baseline_of_zero_is_all_that_is_missing(ask_text):
    question = replace(ask_text(depth=2), baseline=torch.zeros(16))
    missing = what_changes(question) - IntegratedGradients(steps=200).signed(question).sum(1)
    assert (missing > 0.5).all()
    torch.testing.assert_close(missing, what_changes(question) - what_changes(question, 1e-5), rtol=1e-3, atol=1e-3)


def test_the_contribution_of_a_word_is_the_sum_of_its_tokens(ask_text, add_up_tokens):
    texts = ["a funny movie .", "a fast enjoyable movie . funny"]
    words, method = ask_text(texts, depth=2, unit="word"), IntegratedGradients(steps=10)
    expected = add_up_tokens(words.task, texts, method.signed(ask_text(texts, depth=2)))
    torch.testing.assert_close(method.signed(words), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(method(words), expected.abs(), rtol=1e-4, atol=1e-5)


def test_it_agrees_with_a_slow_loop_over_the_path(ask_text):
    question, steps = ask_text(depth=0), 7
    model, inputs = question.model.model, question.batch.inputs
    embeds = model.get_input_embeddings()(inputs["input_ids"]).detach()
    labels = model(**inputs).logits.argmax(-1, keepdim=True)
    expected = torch.zeros(question.batch.shape)
    for share, weight in zip(*rule(steps), strict=True):
        moved = question.baseline + share * (embeds - question.baseline)
        point = torch.where(question.batch.valid.unsqueeze(-1), moved, embeds).requires_grad_(True)
        logits = model(inputs_embeds=point, attention_mask=inputs["attention_mask"]).logits
        (slope,) = torch.autograd.grad(logits.log_softmax(-1).gather(1, labels).sum(), point)
        expected += weight * (slope * (embeds - question.baseline)).sum(-1)
    found = IntegratedGradients(steps=steps).signed(question)
    torch.testing.assert_close(found, expected * question.batch.valid, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("batch_size", "passes"), [(1, 10), (3, 10), (6, 5), (1000, 1)])
def test_points_share_passes_and_the_scores_do_not_tell(batch_size, passes):
    model, task = evidence_model(), evidence_task()
    question = Question(model, task, task.collate(range(3)), 1, torch.zeros(4))
    expected = IntegratedGradients(steps=10)(question)
    before = model.model.passes
    torch.testing.assert_close(IntegratedGradients(10, batch_size)(question), expected)
    assert model.model.passes - before == 1 + passes


def test_the_rule_is_exact_for_polynomials():
    shares, weights = rule(3)
    assert ((shares > 0) & (shares < 1)).all()
    for power in range(6):
        torch.testing.assert_close((weights * shares**power).sum(), torch.tensor(1 / (power + 1)))


def test_a_path_without_points_is_refused():
    with pytest.raises(SettingError, match="steps of integrated gradients must be at least 1, got 0"):
        IntegratedGradients(steps=0)


def test_where_nothing_stands_in_for_a_unit_the_path_starts_at_zero(ask_text):
    question, method = ask_text(), IntegratedGradients(steps=5)
    at_zero = method(replace(question, baseline=torch.zeros(16)))
    assert torch.equal(method(replace(question, baseline=None)), at_zero)
