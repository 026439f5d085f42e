from itertools import islice

import torch

from diffmask.training.random import batch_indices, draw_depths, generator


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
