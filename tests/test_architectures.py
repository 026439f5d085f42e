"""The sweep over transformers' classes tells those that pass from those that are refused, fail, or cannot be made."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.architectures import Asked, all_classes, examine, main, summarise
from benchmarks.exam import failures
from benchmarks.small_models import IMAGES, build

from diffmask.models.adapting import adapt
from diffmask.report import TABLES


@pytest.mark.parametrize(
    ("name", "kind", "task", "outcome", "why"),
    [
        ("BertForTokenClassification", "bert", "token classification", "passes", ""),
        ("RwkvForCausalLM", "rwkv", "next token", "passes", ""),
        ("T5ForConditionalGeneration", "t5", "text to text", "passes", ""),
        ("XLMForSequenceClassification", "xlm", "text classification", "passes", ""),
        ("Gemma3ForSequenceClassification", "gemma3", "text classification", "passes", ""),
        ("ViTForImageClassification", "vit", IMAGES, "passes", ""),
        ("XLNetForTokenClassification", "xlnet", "token classification", "passes", ""),
        ("FSMTForConditionalGeneration", "fsmt", "text to text", "passes", ""),
        ("SqueezeBertForTokenClassification", "squeezebert", "token classification", "refused", "was not reached"),
        ("ResNetForImageClassification", "resnet", IMAGES, "refused", "is no vision transformer"),
        ("LayoutLMv2ForQuestionAnswering", "layoutlmv2", "question answering", "not built", ""),
    ],
)
def test_a_class_is_built_small_and_examined(name, kind, task, outcome, why):
    found = examine(Asked(name, kind, task))
    assert found[0] == outcome and why in found[1] and (found[2] > 0) == (outcome == "passes")


def test_a_model_that_does_not_keep_the_rules_fails():
    model, batch = build("GPT2LMHeadModel", "gpt2", "next token")
    runs = iter(range(100))
    model.lm_head.register_forward_hook(lambda module, given, found: found + next(runs))
    wrong = list(failures(adapt(model), batch))
    assert "transformer.wte: a state replaced by itself changes the answer" in wrong
    assert "transformer.wte: resuming there is not running anew" in wrong


def test_a_model_without_a_gradient_fails():
    model, batch = build("GPT2LMHeadModel", "gpt2", "next token")
    model.lm_head.register_forward_hook(lambda module, given, found: 0 * found)
    assert "transformer.wte: no gradient comes back" in list(failures(adapt(model), batch))


def test_a_site_that_nobody_reads_fails():
    model, batch = build("GPT2LMHeadModel", "gpt2", "next token")
    model.transformer.h[2].register_forward_pre_hook(lambda module, args: (torch.zeros(2, 6, 96), *args[1:]))
    assert "transformer.h.1: nobody reads it" in failures(adapt(model), batch)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--only", "Berd"], "no class for our tasks is named Berd"),
        (["--only", "BertForQuestionAnswering"], "give another --output"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_written(wrong, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["architectures", *wrong])
    with pytest.raises(SystemExit):
        main()
    assert said in capsys.readouterr().err


def test_every_task_of_ours_is_asked_and_no_class_twice():
    classes = all_classes()
    names = [asked.name for asked in classes]
    assert len(set(names)) == len(names) > 300 and len({asked.task for asked in classes}) == 6
    assert {"LlamaForCausalLM", "BartForConditionalGeneration", "Dinov2ForImageClassification"} <= set(names)


def test_the_tables_count_classes_and_put_those_of_one_reason_together():
    why = "{} is no vision transformer: its parts overlap. Bring another"
    rows = [
        {"class": name, "task": IMAGES, "outcome": outcome, "why": why.format(name), "sites": 0}
        for name, outcome in (("A", "refused"), ("B", "refused"), ("C", "passes"), ("D", "not built"))
    ]
    result = {"rows": rows, "summary": summarise(rows)}
    assert "| image classification | 4 | 1 | 2 | 0 | 1 |" in TABLES.get("architectures")(result)
    assert "| refused | … is no vision transformer: its parts overlap | `A`, `B` |" in TABLES.get(
        "architectures#others"
    )(result)


def test_random_models_are_the_same_each_time():
    (one, _), (other, _) = (build("BertForTokenClassification", "bert", "token classification") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
