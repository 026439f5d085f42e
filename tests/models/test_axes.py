"""Time may stand before the examples: states are read, replaced and remembered as if it did not."""

import copy

import pytest
import torch
from torch import nn

from diffmask.errors import SiteError
from diffmask.explaining.explain import explain
from diffmask.masking.copies import Copies
from diffmask.masking.recurrent import last_states
from diffmask.models.adapting import adapt
from diffmask.models.sites import Site, capture, replace, resume
from diffmask.tasks.tensors import TensorTask
from diffmask.tasks.text import TextClassification
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.types import Batch, Categorical
from tiny_text import make_tokenizer

IDS = torch.randint(0, 9, (6, 4), generator=torch.Generator().manual_seed(0))


class Answer(nn.Module):
    """Embeds, turns where its layers want time first, and answers at the mean."""

    def __init__(self, first: bool, layers: nn.Module, width: int) -> None:
        super().__init__()
        self.first, self.embedding, self.layers, self.answer = first, nn.Embedding(9, 4), layers, nn.Linear(width, 2)

    def forward(self, ids):
        state = self.embedding(ids if self.first else ids.T)
        found = self.layers(state)
        found = found[0] if isinstance(found, tuple) else found
        return self.answer(found.mean(1 if self.first else 0))


def recurrent(first):
    return nn.GRU(4, 6, batch_first=first)


def attending(first):
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@pytest.fixture(params=[(recurrent, 6), (attending, 4)], ids=["recurrent", "attending"])
def pair(request):
    """The same model twice: with examples first, and with time first."""
    make, width = request.param
    torch.manual_seed(0)
    usual, other = Answer(True, make(True), width).eval(), Answer(False, make(False), width).eval()
    other.load_state_dict(copy.deepcopy(usual.state_dict()))
    return usual, other


def batch_of(ids=IDS):
    return Batch({"ids": ids}, torch.ones_like(ids, dtype=torch.bool))


def test_states_are_those_of_the_same_model_with_examples_first(pair):
    seen = []
    for model in pair:
        adapter = adapt(model, example=batch_of())
        with torch.no_grad(), capture(adapter.sites) as states:
            adapter(batch_of())
        seen.append(states)
    assert list(seen[0]) == list(seen[1])
    for name, state in seen[0].items():
        torch.testing.assert_close(seen[1][name], state)


@pytest.mark.parametrize("put", ["replace", "resume"])
def test_states_are_replaced_as_in_the_same_model_with_examples_first(pair, put):
    answers = []
    for model in pair:
        adapter = adapt(model, example=batch_of())
        with torch.no_grad(), capture(adapter.sites) as states:
            adapter(batch_of())
        found = []
        for site in adapter.sites:
            state = torch.linspace(-1, 1, states[site.name].numel()).view_as(states[site.name])
            with torch.no_grad(), replace(site, state) if put == "replace" else resume(site, state, states):
                found.append(adapter(batch_of()))
        answers.append(torch.stack(found))
    torch.testing.assert_close(*answers)


class Padded(nn.Module):
    """Answers at the mean of what is no padding."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first, self.embedding, self.answer = first, nn.Embedding(14, 4), nn.Linear(4, 2)

    def forward(self, input_ids, attention_mask, **_):
        found = self.embedding(input_ids if self.first else input_ids.T)
        found = (found if self.first else found.transpose(0, 1)).tanh()
        return self.answer((found * attention_mask.unsqueeze(-1)).sum(1) / attention_mask.sum(1, keepdim=True))


@pytest.mark.parametrize("cache", ["off", "memory", "disk"])
def test_padded_states_are_remembered_as_those_of_the_same_model_with_examples_first(cache):
    found, tokenizer = [], make_tokenizer()
    texts = ["a movie", "a fast funny movie .", "fun", "what a movie ?", "enjoyable", "a fast movie", "movie ."]
    for first in (True, False):
        torch.manual_seed(0)
        model = Padded(first)
        task = AsTuple(tokenizer, texts, texts[:3])
        config = recipe("text", steps=6, batch_size=2, ablation_steps=2, hidden=4, cache=cache, kind="hidden")
        fitted = fit(adapt(model, tokenizer, sites=["embedding"]), task, config)
        found.append(torch.cat([e.scores.flatten() for e in explain(fitted, texts)]))
    torch.testing.assert_close(*found)


class AsTuple(TextClassification):
    """Reads a model that gives its logits alone."""

    def read(self, output, batch):
        return {"label": Categorical(output)}


@pytest.mark.parametrize("cache", ["off", "memory", "disk"])
@pytest.mark.parametrize("named", [None, ["embedding", "last"]], ids=["all sites", "some sites"])
def test_probes_are_those_of_the_same_model_with_examples_first(pair, cache, named):
    found = []
    ids = torch.randint(0, 9, (20, 4), generator=torch.Generator().manual_seed(1))
    for model in pair:
        last = "layers" if isinstance(model.layers, nn.GRU) else "layers.layers.1"
        sites = named and ["embedding", last]
        adapter = adapt(model, example=batch_of(), sites=sites)
        task = TensorTask({"ids": ids}, torch.ones_like(ids, dtype=torch.bool), "categorical")
        config = recipe(steps=4, batch_size=3, ablation_steps=2, hidden=4, cache=cache, guard=False)
        fitted = fit(adapter, task, config)
        found.append(torch.stack([e.scores for e in explain(fitted, list(task.validation)[:5])]))
    torch.testing.assert_close(*found)


def test_layers_say_themselves_where_no_example_does(pair):
    usual, other = (adapt(model).sites[-1].layout for model in pair)
    assert (usual, other) == ("line", "time")


def test_an_example_says_more_than_layers_do():
    """This one turns inside, so that its states have examples first."""

    class Turned(nn.TransformerEncoderLayer):
        def forward(self, src, *others, **more):
            return super().forward(src.transpose(0, 1), *others, **more).transpose(0, 1)

    model = nn.Sequential(nn.Embedding(9, 4), Turned(4, 2, 8), nn.Flatten(), nn.Linear(16, 2))
    model.forward = lambda ids: nn.Sequential.forward(model, ids)
    assert adapt(model, sites=["0", "1"]).sites[1].layout == "time"
    assert adapt(model, sites=["0", "1"], example=batch_of()).sites[1].layout == "line"


def test_what_is_laid_out_by_hand_stays_where_an_example_cannot_tell():
    model = Answer(False, recurrent(False), 6)
    square = batch_of(IDS[:4])
    sites = [Site("embedding", model.embedding, layout="time"), Site("layers", model.layers)]
    assert [site.layout for site in adapt(model, sites=sites, example=square).sites] == ["time", "time"]


def test_a_model_that_showed_no_example_is_refused_with_what_to_give():
    model = Answer(False, recurrent(False), 6)
    task = TensorTask({"ids": IDS}, torch.ones_like(IDS, dtype=torch.bool), "categorical")
    with pytest.raises(SiteError, match=r"let adapt see that time comes first there, adapt\(model, tokenizer\)"):
        fit(adapt(model), task, recipe(steps=1, batch_size=2, ablation_steps=1))


def test_a_grid_that_was_named_by_hand_stays_one():
    class Maps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 6)  # as many features as there are examples, and rows as positions
            self.maps = nn.Identity()

        def forward(self, ids):
            return self.maps(self.embedding(ids).view(6, 4, 6, 1)).flatten(1)

    model = Maps()
    sites = ["embedding", Site("maps", model.maps, layout="grid")]
    assert [site.layout for site in adapt(model, sites=sites, example=batch_of()).sites] == ["line", "grid"]


def test_a_layer_with_an_attention_of_its_own_is_laid_out_as_usual():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    layer.self_attn = nn.Identity()
    assert adapt(nn.Sequential(nn.Embedding(9, 4), layer), sites=["0", "1"]).sites[1].layout == "line"


def test_an_example_of_as_many_positions_as_examples_tells_nothing(pair):
    assert {site.layout for site in adapt(pair[0], example=batch_of(IDS[:4])).sites} == {"line"}


def test_sets_are_run_on_from_the_last_state_as_one_by_one():
    """Where only the last state of a recurrent layer counts, one embedding of a text stands for all its sets."""

    class Last(Answer):
        def forward(self, ids):
            return self.answer(self.layers(self.embedding(ids.T))[0][-1])

    torch.manual_seed(0)
    model = adapt(Last(False, recurrent(False), 6).eval(), example=batch_of())
    sets = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)
    one, all_three = (Copies(model, batch_of(), 0, "embedding", torch.zeros(4), count) for count in (1, 3))
    with torch.no_grad(), model.frozen():
        view = last_states(one)[0]
        torch.testing.assert_close(view.run(view.tree.states(sets), view.copies(3)), all_three.run(sets))
