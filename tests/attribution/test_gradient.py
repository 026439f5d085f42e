import torch

from diffmask.attribution.gradient import GradientNorm
from diffmask.attribution.method import Question
from toys import EVIDENCE, evidence_model, evidence_task


def test_on_evidence_every_real_unit_has_the_same_slope():
    task = evidence_task()
    batch = task.collate(range(30))
    total = (EVIDENCE[batch.inputs["tokens"]] * batch.valid).sum(1, keepdim=True)
    expected = torch.sigmoid(-total.abs()) * EVIDENCE.norm() * batch.valid
    for depth in range(3):
        scores = GradientNorm()(Question(evidence_model(), task, batch, depth, torch.zeros(4)))
        torch.testing.assert_close(scores, expected)


def test_on_a_linear_model_it_is_the_norm_of_the_weights(linear):
    expected = linear.model.model.weight.norm(dim=1).expand(6, 5) * linear.batch.valid
    torch.testing.assert_close(GradientNorm()(linear), expected.detach())


def test_it_agrees_with_the_gradient_of_inputs_embeds(ask_text):
    question = ask_text()
    model, inputs = question.model.model, question.batch.inputs
    embeds = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_(True)
    logits = model(inputs_embeds=embeds, attention_mask=inputs["attention_mask"]).logits
    logits.log_softmax(-1).max(-1).values.sum().backward()
    expected = embeds.grad.norm(dim=-1) * question.batch.valid
    torch.testing.assert_close(GradientNorm()(question), expected, rtol=1e-4, atol=1e-6)


def test_the_slope_of_a_word_is_that_of_its_tokens_side_by_side(ask_text, add_up_tokens):
    texts = ["a funny movie .", "a fast enjoyable movie . funny"]
    words = ask_text(texts, depth=2, unit="word")
    tokens = GradientNorm()(ask_text(texts, depth=2))
    expected = add_up_tokens(words.task, texts, tokens.square()).sqrt()
    torch.testing.assert_close(GradientNorm()(words), expected)


def test_only_what_comes_after_the_site_is_run_again():
    model, task = evidence_model(), evidence_task()
    GradientNorm()(Question(model, task, task.collate(range(4)), 1, torch.zeros(4)))
    assert [block.calls for block in model.model.blocks] == [1, 2]
