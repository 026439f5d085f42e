from itertools import islice

import pytest
import torch

from diffmask.models.adapting import adapt
from diffmask.tasks.text import TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.random import batch_indices, draw_depths, generator
from diffmask.training.trainer import Trainer
from tiny_text import make_model, make_tokenizer


def test_an_epoch_visits_every_example_once():
    rows = [row for batch in islice(batch_indices(12, 4, seed=3), 3) for row in batch]
    assert sorted(rows) == list(range(12))


def test_batches_from_a_later_step_are_the_rest_of_the_same_stream():
    whole = list(islice(batch_indices(10, 3, seed=1), 20))
    assert list(islice(batch_indices(10, 3, seed=1, first=7), 13)) == whole[7:]


def test_a_batch_larger_than_the_data_is_the_data():
    assert sorted(next(batch_indices(3, 100, seed=0))) == [0, 1, 2]


def test_every_depth_has_its_turn_in_every_round():
    drawn = [draw_depths([0, 2, 5], 1, seed=4, number=k)[0] for k in range(30)]
    assert all(sorted(drawn[k : k + 3]) == [0, 2, 5] for k in range(0, 30, 3))
    assert len({tuple(drawn[k : k + 3]) for k in range(0, 30, 3)}) > 1


def test_streams_of_different_purpose_seed_or_step_differ():
    draws = {float(torch.rand((), generator=generator(s, p, n))) for s in range(3) for p in range(5) for n in range(3)}
    assert len(draws) == 45


LENGTHS = torch.randint(1, 40, (100,), generator=torch.Generator().manual_seed(0)).tolist()


def test_batches_of_like_length_still_visit_every_example_once():
    for epoch in range(3):
        batches = list(islice(batch_indices(100, 5, seed=3, first=20 * epoch, lengths=LENGTHS), 20))
        assert sorted(row for batch in batches for row in batch) == list(range(100))


def test_batches_of_like_length_need_less_padding_and_come_in_random_order():
    def padding(lengths):
        batches = list(islice(batch_indices(100, 5, seed=3, lengths=lengths), 20))
        longest = [max(LENGTHS[row] for row in batch) for batch in batches]
        return sum(5 * most for most in longest) - sum(LENGTHS), longest

    (mixed, _), (alike, longest) = padding(None), padding(LENGTHS)
    assert alike < mixed / 3
    assert longest != sorted(longest) and longest != sorted(longest, reverse=True)


@pytest.mark.parametrize("first", [1, 7, 20, 33])
def test_batches_of_like_length_from_a_later_step_are_the_rest_of_the_same_stream(first):
    whole = list(islice(batch_indices(100, 5, seed=1, lengths=LENGTHS), 50))
    assert list(islice(batch_indices(100, 5, seed=1, first=first, lengths=LENGTHS), 50 - first)) == whole[first:]
    assert whole[:20] != whole[20:40]


def test_a_fit_of_texts_of_many_lengths_resumes_in_the_middle_of_an_epoch_with_the_same_bits(tmp_path, monkeypatch):
    tokenizer = make_tokenizer()
    texts = [" ".join(["a", "funny", "fast", "movie", "."][: 1 + k % 5]) for k in range(20)]
    task = TextClassification(tokenizer, texts, texts[:4])
    config = recipe(margin=1.0, steps=6, batch_size=4, ablation_steps=1, guard=False, checkpoint_every=3)
    model = adapt(make_model("bert"), tokenizer)
    whole = fit(model, task, config, directory=tmp_path / "whole")
    one_step, count = Trainer._one_step, iter(range(100))

    def stop_at_the_fourth(self, *args):
        if next(count) == 4:
            raise KeyboardInterrupt
        one_step(self, *args)

    monkeypatch.setattr(Trainer, "_one_step", stop_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        fit(model, task, config, directory=tmp_path / "broken")
    monkeypatch.setattr(Trainer, "_one_step", one_step)
    resumed = fit(model, task, config, directory=tmp_path / "broken")
    states = zip(whole.probe.state_dict().values(), resumed.probe.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in states)
