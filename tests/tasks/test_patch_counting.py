"""Images of nine patches whose answer is a count, and whose right explanation is therefore known."""

import torch

from diffmask.tasks.patch_counting import COLOURS, PATCH, RED, UNITS, PatchCounting, draw_colours, paint


def test_every_count_is_drawn_about_as_often_and_the_test_images_have_each_equally():
    task = PatchCounting(train=5000, validation=10, test=100)
    counts = task.red(task.train).sum(1)
    shares = torch.bincount(counts, minlength=UNITS + 1) / 5000
    assert (shares - 0.1).abs().max() < 0.02
    assert torch.bincount(task.red(task.test).sum(1), minlength=UNITS + 1).tolist() == [10] * 10


def test_as_many_patches_are_red_as_asked_for_at_places_that_do_not_matter():
    colours = draw_colours(torch.full((3000,), 3), torch.Generator().manual_seed(0))
    red = colours == RED
    assert (red.sum(1) == 3).all() and (red.float().mean(0) - 1 / 3).abs().max() < 0.04
    others = torch.bincount(colours[~red], minlength=len(COLOURS))[1:] / (~red).sum()
    assert (others - 1 / 5).abs().max() < 0.02


def test_patches_are_filled_with_their_colours_in_reading_order():
    colours = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 1, 2]])
    pixels = paint(colours)
    assert pixels.shape == (1, 3, 3 * PATCH, 3 * PATCH) and set(pixels.unique().tolist()) == {-1.0, 1.0}
    for unit in range(UNITS):
        row, column = divmod(unit, 3)
        patch = pixels[0, :, row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
        assert torch.equal(patch, (COLOURS[colours[0, unit]] * 2 - 1).float().view(3, 1, 1).expand_as(patch))


def test_six_colours_are_neither_black_nor_white_and_a_seed_is_a_data_set():
    assert COLOURS.unique(dim=0).shape == (6, 3) and COLOURS[RED].tolist() == [1, 0, 0]
    assert COLOURS.sum(1).min() == 1 and COLOURS.sum(1).max() == 2
    one, same, other = (PatchCounting(seed, 50, 10, 10).colours for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_batches_hold_what_was_drawn():
    task = PatchCounting(train=20, validation=5, test=10)
    batch = task.collate(task.validation)
    assert torch.equal(batch.inputs["pixel_values"], paint(task.colours[20:25])) and batch.valid.shape == (5, UNITS)
