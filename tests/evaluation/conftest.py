"""Cases to judge: evidence whose truth is known, and tiny texts; scores by methods that do not see batch mates."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from diffmask.attribution.method import Method, Question
from diffmask.evaluation.metric import Case
from diffmask.evaluation.remove_to_baseline import ToBaseline
from diffmask.models.adapting import adapt
from diffmask.tasks.tensors import TensorTask
from diffmask.tasks.text import NextToken, TextClassification
from diffmask.training.draws import unit_noise
from tiny_text import TEXTS, make_model, make_tokenizer, pad_left
from toys import evidence_model, evidence_task

NOTHING = torch.tensor([0.5, 0.5, 0.0, 0.0])  # what stands in for a missing token of the toy: no evidence


@dataclass(frozen=True)
class Noise(Method):
    """Scores from the content of each example and the seed alone."""

    seed: int = 0

    def __call__(self, question):
        return unit_noise(question.batch, seed=self.seed)[0]


@dataclass(frozen=True)
class Oracle(Method):
    """The truth about the toy, or the opposite."""

    turned: bool = False

    def __call__(self, question):
        found = evidence(question.batch)
        return ((~found if self.turned else found) & question.batch.valid).float()


def evidence(batch):
    return (batch.inputs["tokens"] >= 2) & batch.valid


def one_sided(count=120, units=8, seed=0):
    """Evidence for alone, so that nothing cancels; at least one unit matters and one does not."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 3, (count, units), generator=generator)
    tokens[:, 0], tokens[:, 1] = 2, 0
    length = torch.randint(2, units + 1, (count, 1), generator=generator)
    valid = torch.arange(units) < length
    return TensorTask({"tokens": tokens * valid, "valid": valid}, valid, "bernoulli", validation_count=20)


def judge(method=None, rows=range(40), depth=2, task=None, removal=None, model=None):
    """Make a case about the toy, with its truth, which is also what a person marked."""
    task = task or one_sided()
    question = Question(model or evidence_model(), task, task.collate(rows), depth, NOTHING)
    method, truth = method or Oracle(), evidence(question.batch)
    return Case(question, method, method(question), removal or ToBaseline(), truth, truth)


def judge_text(texts=TEXTS, kind="bert", removal=None, depth=0, side="right", method=None, marked=True, **settings):
    """Make a case about texts and a tiny random model, the same for the same kind."""
    causal = kind != "bert"
    task_kind = NextToken if causal else TextClassification
    task = pad_left(task_kind(make_tokenizer(causal=causal), TEXTS, TEXTS, **settings), side == "left")
    question = Question(adapt(make_model(kind)), task, task.collate(texts), depth, torch.linspace(-1, 1, 16))
    method = method or Noise()
    truth = (unit_noise(question.batch, seed=7)[0] > 0.5) & question.batch.valid if marked else None
    return Case(question, method, method(question), removal or ToBaseline(), truth, truth)


@pytest.fixture
def toys():
    return SimpleNamespace(
        judge=judge,
        judge_text=judge_text,
        one_sided=one_sided,
        evidence=evidence,
        Noise=Noise,
        Oracle=Oracle,
        mixed=evidence_task,
    )
