"""Running a probe over many examples says what explaining each of them says."""

import pytest
import torch

from diffmask.explaining.certify import certify
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.studies.probing import Probed, certify_examples, probe_examples
from diffmask.tasks.text import SpanAnswer, TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import make_model, make_tokenizer
from toys import evidence_model, evidence_task

TEXTS = [
    "a fast enjoyable movie . funny",
    "funny",
    "a movie",
    "enjoyable movie . a fast fast",
    "what ?",
    "a funny movie",
]
QUICK = {"margin": 0.05, "steps": 6, "batch_size": 4, "ablation_steps": 2, "guard": False, "calibrate": False}


def scattered(fitted):
    """Let every voter of a probe say something else of every unit: six steps teach it little."""
    torch.manual_seed(0)
    for voter in fitted.probe.voters:
        torch.nn.init.normal_(voter.last.weight, std=2.0)
        torch.nn.init.zeros_(voter.last.bias)
    return fitted


def text_fit(kind="input", unit="token"):
    tokenizer = make_tokenizer()
    task = TextClassification(tokenizer, TEXTS, TEXTS, unit=unit, ask="first")
    return scattered(fit(adapt(make_model("bert"), tokenizer), task, recipe("text", kind=kind, **QUICK)))


@pytest.fixture(scope="module", params=["input", "hidden", "words", "evidence"])
def case(request):
    """Return a fitted probe and examples of many lengths, in no order."""
    if request.param == "evidence":
        fitted = scattered(fit(evidence_model(), evidence_task(150), recipe(kind="hidden", **QUICK)))
        return fitted, fitted.task.validation[:20]
    return text_fit("input", "word") if request.param == "words" else text_fit(request.param), TEXTS


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_every_depth_says_what_explaining_there_says(case, batch_size):
    fitted, examples = case
    probed = probe_examples(fitted, examples, batch_size)
    assert len(probed.probability) == len(examples)
    assert 0.1 < probed.share_masked.mean() < 0.9 and (probed.divergence > 1e-3).any()  # there is something to compare
    for depth in range(fitted.probe.depth_count):
        for row, one in enumerate(explain(fitted, examples, depth=depth)):
            torch.testing.assert_close(probed.probability[row], one.scores.exp(), rtol=1e-4, atol=1e-5)
            assert torch.equal(probed.kept[row][depth], one.kept)
            assert float(probed.share_masked[depth, row]) == pytest.approx(1 - float(one.kept.float().mean()), abs=1e-6)
            assert float(probed.divergence[depth, row]) == pytest.approx(one.verification.divergence, abs=1e-5)
            for name, decided in one.verification.original.items():
                assert probed.original[name][row].tolist() == decided
                assert probed.masked[name][depth, row].tolist() == one.verification.masked[name]
            assert float(probed.agreement[depth, row]) == one.verification.same_prediction


def test_examples_come_back_in_their_order_though_batches_are_sorted_by_length(case):
    fitted, examples = case
    order = list(reversed(range(len(examples))))
    one, other = (probe_examples(fitted, some, 2) for some in (examples, [examples[row] for row in order]))
    torch.testing.assert_close(one.divergence[:, order], other.divergence, rtol=1e-4, atol=1e-5)
    for row, place in enumerate(order):
        torch.testing.assert_close(one.probability[place], other.probability[row], rtol=1e-4, atol=1e-5)


def test_examples_of_like_length_share_a_batch(monkeypatch):
    fitted, widths = text_fit(), []
    collate = fitted.task.collate
    monkeypatch.setattr(
        fitted.task, "collate", lambda some: widths.append([len(t.split()) for t in some]) or collate(some)
    )
    probe_examples(fitted, TEXTS, 2)
    assert [max(width) for width in widths] == sorted(max(width) for width in widths)


def test_the_model_is_left_as_it_was(case):
    fitted, examples = case
    fitted.model.model.train()
    probe_examples(fitted, examples[:2])
    assert fitted.model.model.training
    fitted.model.model.eval()


def test_a_span_of_which_one_end_moved_is_half_kept():
    right, wrong = torch.tensor([1, 1]), torch.tensor([[1, 0], [0, 0]])
    probed = Probed(
        [torch.ones(2, 3)] * 2,
        torch.zeros(2, 2),
        {"start": right, "end": right},
        {"start": wrong, "end": right.expand(2, 2)},
    )
    assert probed.agreement.tolist() == [[1.0, 0.5], [0.5, 0.5]]


def test_spans_are_decided_within_each_example():
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    model = transformers.BertForQuestionAnswering(transformers.BertConfig(vocab_size=14, **sizes)).eval()
    tokenizer, pairs = (
        make_tokenizer(),
        [("what ?", "a funny movie ."), ("what", "enjoyable"), ("a ?", "fast fast movie")],
    )
    fitted = fit(adapt(model, tokenizer), SpanAnswer(tokenizer, pairs, pairs), recipe("text", **QUICK))
    probed = probe_examples(fitted, pairs)
    for row, pair in enumerate(pairs):
        with torch.no_grad():
            alone = model(**tokenizer(*pair, return_tensors="pt"))
        assert probed.original["start"][row] == alone.start_logits.argmax()
        assert probed.original["end"][row] == alone.end_logits.argmax()


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_certified_shares_are_those_of_certifying_each_example(kind):
    fitted = text_fit(kind)
    found = certify_examples(fitted, TEXTS, 4)
    for depth in range(fitted.probe.depth_count):
        for row, text in enumerate(TEXTS):
            (alone,) = certify(fitted, [text], depth=depth, margin=0.05, decision=True)
            assert float(found.share_masked[depth, row]) == pytest.approx(1 - float(alone.kept.float().mean()))
            assert float(found.divergence[depth, row]) == pytest.approx(alone.verification.divergence, abs=1e-5)
            assert int(found.decided["label"][depth, row]) == alone.verification.original["label"]
