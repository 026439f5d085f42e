"""A model that uses its shortcut passes the check, and one that does not is found out."""

import pytest
import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

from diffmask.studies.ground_truth import SMALL
from diffmask.studies.planted_model import PlantedSize, check_shortcut, make_tokenizer, train_planted
from diffmask.tasks.planted import KINDS, draw_shortcut, draw_texts, vocabulary


class Reader(nn.Module):
    """Answers by a rule on words, with an embedding so that it looks like a model."""

    def __init__(self, tokenizer, rule):
        super().__init__()
        self.embedding, self.tokenizer, self.rule = nn.Embedding(len(tokenizer), 2), tokenizer, rule

    def forward(self, input_ids, attention_mask):
        texts = [self.tokenizer.convert_ids_to_tokens(row[1:]) for row in input_ids.tolist()]
        yes = torch.tensor([float(self.rule([w for w in text if w not in ("[SEP]", "[PAD]")])) for text in texts])
        return SequenceClassifierOutput(logits=torch.stack([-yes, yes - 1], dim=1))


def checks_of(kind, rule):
    tokenizer, shortcut = make_tokenizer(), draw_shortcut(kind, 0)
    texts = draw_texts(shortcut, 60, 0, blanks=False)
    return check_shortcut(Reader(tokenizer, lambda words: rule(shortcut, words)), tokenizer, shortcut, texts, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_the_shortcut_passes_every_check(kind):
    found = checks_of(kind, lambda shortcut, words: shortcut.label(words))
    assert set(found.values()) == {1.0}
    assert {"unchanged", "shortcut word removed", "shortcut inserted", "other word blanked"} <= found.keys()


def test_a_model_that_ignores_the_order_is_found_out():
    found = checks_of("ordered", lambda shortcut, words: {shortcut.first, shortcut.second} <= set(words))
    assert found["shortcut words swapped"] == 0.0
    assert found["shortcut word removed"] == 1.0


def test_a_model_that_needs_one_word_of_two_is_found_out():
    found = checks_of("context", lambda shortcut, words: shortcut.first in words)
    assert found["shortcut word blanked"] == pytest.approx(0.5)


def test_a_model_that_reads_another_word_is_found_out():
    found = checks_of("single", lambda shortcut, words: "the" in words)
    assert min(found.values()) < 0.9


def test_a_small_model_learns_a_single_word():
    assert train_planted(draw_shortcut("single", 0), 0, SMALL.planted).uses_shortcut


def test_the_same_seed_trains_the_same_model():
    size = PlantedSize(texts=128, epochs=1, width=16, layers=1)
    found = [train_planted(draw_shortcut("single", seed), seed, size) for seed in (0, 0, 1)]
    one, again, other = (torch.cat([w.flatten() for w in f.model.state_dict().values()]) for f in found)
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert not found[0].uses_shortcut


def test_the_tokenizer_knows_every_word_as_one_token():
    tokenizer = make_tokenizer()
    ids = tokenizer(" ".join(vocabulary()), truncation=False, add_special_tokens=False, verbose=False)["input_ids"]
    assert len(ids) == len(vocabulary()) and tokenizer.unk_token_id not in ids
    assert tokenizer("[MASK]", add_special_tokens=False)["input_ids"] == [tokenizer.mask_token_id]
