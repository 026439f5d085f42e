"""Before a fit a model is tried on an example beside a longer one: some look at padding."""

import pytest
import torch

from diffmask.models.adapting import adapt
from diffmask.tasks.text import TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import doubt_padding, fit
from tiny_text import TEXTS, make_model, make_tokenizer


class AtTheEnd(torch.nn.Module):
    """Answers at the last position, padding or not."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding.from_pretrained(torch.eye(14))

    def forward(self, input_ids, attention_mask, token_type_ids):
        return {"logits": 5 * self.words(input_ids)[:, -1, :3]}


@pytest.mark.parametrize(
    ("texts", "warned"), [(TEXTS, True), (["a movie .", "a fast ."], False), (["a movie ."], False)]
)
def test_a_model_that_answers_at_the_last_position_is_warned_of(texts, warned, caplog):
    doubt_padding(adapt(AtTheEnd()), TextClassification(make_tokenizer(), texts, texts))
    assert [record.message.startswith("AtTheEnd says another thing of an example") for record in caplog.records] == (
        [True] if warned else []
    )


def test_a_model_that_does_not_look_at_padding_is_not(caplog):
    doubt_padding(adapt(make_model("bert")), TextClassification(make_tokenizer(), TEXTS, TEXTS))
    assert not caplog.records


def test_a_fit_warns_of_it_too(caplog):
    task = TextClassification(make_tokenizer(), TEXTS * 2, TEXTS)
    fit(adapt(AtTheEnd()), task, recipe(margin=1.0, steps=1, batch_size=2, ablation_steps=1, guard=False))
    assert any("it looks at padding" in record.message for record in caplog.records)
