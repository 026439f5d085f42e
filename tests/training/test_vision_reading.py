"""What rankers and gates of a vision model may read."""

import torch

from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.models.adapting import adapt
from diffmask.tasks.images import ImageClassification
from diffmask.training.step import look
from tiny_vision import ARCHITECTURES, build, images

NAME = "DeiTForImageClassification"


def task_of(ask=None):
    task = ImageClassification(None, list(images(NAME, 4)), list(images(NAME, 2)), patch=4)
    task.ask = ask
    return task


def test_gates_read_what_stands_before_the_patches_if_asked():
    model = adapt(build(NAME))
    plain, asked = (look(model, task, task.collate(task.train)) for task in (task_of(), task_of("prefix")))
    first, last = model.sites.names[0], model.sites.names[-1]
    width, prefix = plain.reading[last].shape[-1], ARCHITECTURES[NAME][2]
    assert torch.equal(asked.reading[first], plain.reading[first])  # nothing stands before them there
    assert asked.reading[last].shape[-1] == (1 + prefix) * width
    assert torch.equal(asked.reading[last][..., :width], plain.reading[last])
    whole = asked.states.outputs[last]
    whole = whole if isinstance(whole, torch.Tensor) else whole[0]
    assert torch.equal(asked.reading[last][:, 3, width:], whole[:, :prefix].flatten(1))


def test_a_voter_may_read_every_site_up_to_its_own():
    probe = make_probe(["a", "b", "c"], [2, 3, 4], ProbeConfig(reads="all"))
    assert list(probe.reads(2)) == [0, 1, 2] and probe.voter(2).first.in_features == 9
