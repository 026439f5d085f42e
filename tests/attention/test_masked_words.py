"""Hiding words: the shares of the rule, and who may be hidden."""

import pytest
import torch

from attentive_toys import make_corpus
from diffmask.attention.masked_words import Masking, hide_words, masking_of
from diffmask.errors import SettingError
from diffmask.tasks.words import END, START, Vocabulary

RULE = Masking(mask=4, first_word=5, words=1000)


def hide(seed=0, rows=200, columns=100):
    ids = torch.randint(5, 1000, (rows, columns), generator=torch.Generator().manual_seed(9))
    attended = torch.ones_like(ids, dtype=torch.bool)
    attended[:, :10] = False
    return ids, attended, hide_words(ids, attended, RULE, torch.Generator().manual_seed(seed))


def test_fifteen_in_a_hundred_words_are_chosen_and_eight_in_ten_of_them_masked():
    ids, attended, hidden = hide()
    chosen = hidden.chosen
    assert abs(float(chosen[attended].float().mean()) - 0.15) < 0.01
    masked, kept = hidden.input_ids[chosen] == 4, hidden.input_ids[chosen] == ids[chosen]
    assert abs(float(masked.float().mean()) - 0.8) < 0.02
    assert abs(float(kept.float().mean()) - 0.1) < 0.02
    others = hidden.input_ids[chosen][~masked & ~kept]
    assert others.min() >= 5 and others.max() < 1000


def test_what_was_not_chosen_stays_and_only_attended_words_are_chosen():
    ids, attended, hidden = hide()
    assert torch.equal(hidden.input_ids[~hidden.chosen], ids[~hidden.chosen])
    assert not (hidden.chosen & ~attended).any()


def test_a_seed_hides_the_same_words():
    assert torch.equal(hide(1)[2].input_ids, hide(1)[2].input_ids)
    assert not torch.equal(hide(1)[2].input_ids, hide(2)[2].input_ids)


def test_a_vocabulary_without_the_mask_is_refused():
    with pytest.raises(SettingError, match="'<mask>', which this vocabulary does not have"):
        masking_of(Vocabulary(["a b"], special=(START, END)))
    assert masking_of(make_corpus(4).vocabulary()).mask == 4


def test_a_share_of_all_or_none_is_refused():
    with pytest.raises(SettingError, match="between 0 and 1, got 1"):
        Masking(4, 5, 10, share=1.0)
