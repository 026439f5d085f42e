import pytest
import torch

from diffmask.attribution.gradient_input import GradientInput
from diffmask.attribution.method import Question
from toys import EVIDENCE, evidence_model, evidence_task


def test_on_evidence_it_is_the_evidence_of_a_unit_scaled_by_doubt():
    task = evidence_task()
    batch = task.collate(range(30))
    evidence = EVIDENCE[batch.inputs["tokens"]] * batch.valid
    expected = torch.sigmoid(-evidence.sum(1, keepdim=True).abs()) * evidence.abs()
    for depth in range(3):
        scores = GradientInput()(Question(evidence_model(), task, batch, depth, torch.tensor([0.5, 0.5, 0.0, 0.0])))
        torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("baseline", ["zero", "question"])
def test_on_a_linear_model_it_is_what_leaving_out_changes(linear, baseline):
    model = linear.model.model
    away = torch.zeros(4) if baseline == "zero" else linear.baseline
    change = ((model.embedding(linear.batch.inputs["ids"]) - away) * model.weight).sum(-1)
    torch.testing.assert_close(GradientInput(baseline)(linear), (change.abs() * linear.batch.valid).detach())


def test_the_sign_is_dropped_after_the_tokens_of_a_word_are_added_up(ask_text, add_up_tokens):
    texts = ["a funny movie .", "a fast enjoyable movie . funny"]
    question = ask_text(texts)
    model, inputs = question.model.model, question.batch.inputs
    embeds = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_(True)
    logits = model(inputs_embeds=embeds, attention_mask=inputs["attention_mask"]).logits
    logits.log_softmax(-1).max(-1).values.sum().backward()
    signed = (embeds.grad * (embeds.detach() - question.baseline)).sum(-1)
    expected = add_up_tokens(ask_text(texts, unit="word").task, texts, signed).abs()
    torch.testing.assert_close(GradientInput()(ask_text(texts, unit="word")), expected, rtol=1e-4, atol=1e-5)


def test_an_unknown_baseline_is_refused(outside):
    complaint = outside("from diffmask.attribution.gradient_input import GradientInput; GradientInput('mean')")
    assert "no baseline 'mean' for gradient-input. Known: zero, question" in complaint


def test_a_learned_baseline_gets_no_gradient(linear):
    learned = torch.nn.Parameter(linear.baseline)
    scores = GradientInput()(Question(linear.model, linear.task, linear.batch, 0, learned))
    assert not scores.requires_grad and learned.grad is None
