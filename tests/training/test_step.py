import pytest
import torch
from torch import nn

from diffmask.errors import SiteError
from diffmask.gates.probe import ProbeConfig, make_probe
from diffmask.models.adapting import adapt
from diffmask.models.sites import replace, resume
from diffmask.objective.objective import Objective, ObjectiveConfig
from diffmask.tasks.tensors import TensorTask
from diffmask.training.step import look, step
from toys import evidence_model, evidence_task

WIDTHS = [4, 4, 4]


def take_step(kind, depth, **changes):
    model, task = evidence_model(), evidence_task()
    probe = make_probe(model.sites.names, WIDTHS, ProbeConfig(kind=kind, **changes))
    objective = Objective(ObjectiveConfig(), probe.depth_count)
    batch = task.collate(task.train[:8])
    with model.frozen():
        seen = look(model, task, batch)
        (loss,) = step(seen, probe, objective, [depth], progress=[0.5], generator=torch.Generator().manual_seed(0))
    return model, probe, loss


def test_a_step_runs_exactly_one_original_and_one_masked_pass():
    model, _, _ = take_step("input", depth=2)
    assert model.model.passes == 2
    assert [block.calls for block in model.model.blocks] == [2, 2]


def test_a_hidden_site_step_runs_no_block_up_to_its_site():
    model, _, _ = take_step("hidden", depth=1)  # masks the output of block 0
    assert [block.calls for block in model.model.blocks] == [1, 2]


@pytest.mark.parametrize(
    ("votes", "expected"),
    [("coupled", [True, True, False]), ("corrected", [False, True, False]), ("separate", [False, True, False])],
)
def test_a_step_reaches_every_voter_that_decides_and_no_other(votes, expected):
    _, probe, loss = take_step("input", depth=1, votes=votes)
    loss.total.backward()
    gradients = [voter.last.weight.grad for voter in probe.voters]
    assert [gradient is not None and bool((gradient != 0).any()) for gradient in gradients] == expected


@pytest.mark.parametrize(("kind", "depths", "left"), [("input", [2], 1), ("hidden", [1], 2), ("hidden", [0, 2], 3)])
def test_a_step_that_spends_what_was_seen_says_the_same_and_lets_the_rest_go(kind, depths, left):
    def take(spend):
        model, task = evidence_model(), evidence_task()
        torch.manual_seed(0)
        probe = make_probe(model.sites.names, WIDTHS, ProbeConfig(kind=kind))
        how = {"progress": [0.5] * len(depths), "generator": torch.Generator().manual_seed(0), "spend": spend}
        with model.frozen():
            seen = look(model, task, task.collate(task.train[:8]))
            losses = step(seen, probe, Objective(ObjectiveConfig(), 3), depths, **how)
        return seen, [loss.total.item() for loss in losses]

    (_, whole), (seen, spent) = take(False), take(True)
    assert whole == spent and list(seen.states) == list(seen.model.sites.names[:left])


def test_a_step_at_a_deeper_depth_leaves_the_voters_below_where_they_are():
    _, probe, loss = take_step("input", depth=0)
    optimizer = torch.optim.AdamW(probe.voters.parameters(), lr=0.1, weight_decay=0.0)
    loss.total.backward()
    optimizer.step()
    optimizer.zero_grad()
    model, task = evidence_model(), evidence_task()
    with model.frozen():
        seen = look(model, task, task.collate(task.train[:8]))
        (deeper,) = step(
            seen,
            probe,
            Objective(ObjectiveConfig(), 3),
            [2],
            progress=[0.5],
            generator=torch.Generator().manual_seed(0),
        )
    deeper.total.backward()
    before = probe.voter(0).last.weight.detach().clone()
    optimizer.step()
    assert torch.equal(probe.voter(0).last.weight, before)


def test_a_step_reaches_the_baseline_but_not_the_model():
    model, probe, loss = take_step("hidden", depth=2)
    loss.total.backward()
    assert probe.baseline(2).grad is not None
    assert all(parameter.grad is None for parameter in model.model.parameters())


def whole(inputs):
    """A task of whole sequences, and its first two examples."""
    (some,) = list(inputs.values())[:1]
    task = TensorTask(inputs, torch.ones(some.shape[:2], dtype=torch.bool))
    return task, task.collate([0, 1])


TOKENS = torch.randint(0, 7, (4, 5), generator=torch.Generator().manual_seed(0))


def test_sites_named_by_hand_resume_without_running_earlier_blocks(tower):
    task, batch = whole({"tokens": TOKENS})
    model = adapt(tower, sites=["blocks.2"])
    seen = look(model, task, batch)
    assert list(seen.states)[-1] == "blocks.2"
    before = [block.runs for block in tower.blocks]
    same = seen.masked_at("blocks.2", batch.valid, torch.zeros(4))["output"].raw
    assert [block.runs for block in tower.blocks] == before
    assert torch.equal(same, seen.original["output"].raw)
    other = seen.masked_at("blocks.2", ~batch.valid, torch.ones(4))["output"].raw
    assert torch.allclose(other, tower.head(torch.ones(2, 4)))


def test_an_input_named_by_hand_resumes_without_running_earlier_blocks(tower):
    task, batch = whole({"tokens": TOKENS})
    seen = look(adapt(tower, sites=["blocks.1:input"]), task, batch)
    before = [block.runs for block in tower.blocks]
    seen.masked_at("blocks.1:input", batch.valid, torch.zeros(4))
    assert [block.runs - runs for block, runs in zip(tower.blocks, before, strict=True)] == [0, 1, 1]


class Twice(nn.Module):
    """Runs one layer twice in a pass."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(self.layer(x)).sum(1)


def test_a_module_that_runs_twice_needs_an_example():
    task, batch = whole({"x": torch.randn(4, 3, 4)})
    with pytest.raises(SiteError, match=r"site 'layer' ran 2 times in one pass: .*adapt\(model, example=batch\)"):
        look(adapt(Twice(), sites=["layer"]), task, batch)
    assert set(look(adapt(Twice(), sites=["layer"], example=batch), task, batch).states) == {"layer@0", "layer@1"}


class Encoder(nn.Module):
    """PyTorch's own encoder, which in eval mode may take padding out of its states."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens, valid):
        states = self.encoder(self.embed(tokens), src_key_padding_mask=~valid)
        return self.head((states * valid.unsqueeze(-1)).sum(1))


@pytest.mark.filterwarnings("ignore:.*nested tensors.*:UserWarning")
def test_pytorchs_own_encoder_shows_a_state_for_every_unit():
    torch.manual_seed(0)
    valid = torch.arange(5) < torch.tensor([[5], [3], [2], [4]])
    model, task = adapt(Encoder().eval()), TensorTask({"tokens": TOKENS, "valid": valid}, valid)
    batch = task.collate([1, 2])
    with model.frozen():
        seen = look(model, task, batch)
        assert all(seen.states[name].shape == (2, 5, 8) for name in model.sites.names)
        for name in model.sites.names:
            same = seen.masked_at(name, batch.valid, torch.zeros(8))["output"].raw
            assert torch.allclose(same, seen.original["output"].raw, atol=1e-6)
            assert not torch.allclose(
                seen.masked_at(name, ~batch.valid, torch.arange(8.0))["output"].raw, same, atol=1e-3
            )


class PackedRecurrence(nn.Module):
    """A recurrent classifier as most are written: its layer returns a PackedSequence."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(7, 4), nn.LSTM(4, 4, batch_first=True)

    def forward(self, tokens):
        lengths = torch.full((len(tokens),), tokens.shape[1])
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(tokens), lengths, batch_first=True)
        return self.lstm(packed)[1][0][-1]


def test_a_block_that_is_no_site_may_return_anything():
    task, batch = whole({"tokens": TOKENS})
    assert "embed" in look(adapt(PackedRecurrence(), sites=["embed"]), task, batch).states


class Borrowing(nn.Module):
    """Blocks of their own that all run one shared layer."""

    def __init__(self):
        super().__init__()
        self.embed, self.shared = nn.Embedding(7, 4), nn.Linear(4, 4)
        self.blocks = nn.ModuleList(nn.Sequential(self.shared, nn.Tanh(), nn.Linear(4, 4)) for _ in range(3))

    def forward(self, tokens):
        state = self.embed(tokens)
        for block in self.blocks:
            state = state + block(state)
        return state.sum(1)


def test_a_layer_shared_by_blocks_that_are_no_sites_is_masked_at_the_call_asked_for():
    torch.manual_seed(0)
    task, batch = whole({"tokens": TOKENS})
    model = adapt(Borrowing(), sites=["shared"], example=batch)
    seen = look(model, task, batch)
    new = seen.states["shared@1"] + 1
    with torch.no_grad(), replace(model.sites["shared@1"], new):
        expected = model(batch)
    with torch.no_grad(), resume(model.sites["shared@1"], new, seen.states):
        assert torch.allclose(model(batch), expected)


class InPlace(nn.Module):
    """Goes on in place with what its first layer gave: openly, behind the back of autograd, or only when told."""

    def __init__(self, how):
        super().__init__()
        self.first, self.last, self.how = nn.Linear(4, 4), nn.Linear(4, 3), how

    def forward(self, x):
        state = self.first(x)
        if self.how == "hidden":
            state.data.mul_(2)
        elif self.how == "open":
            state = state.mul_(2)
        return self.last(state).sum(1)


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("how", ["open", "hidden", "never"])
def test_states_of_a_model_that_goes_on_in_place_are_those_it_had(how, later):
    if later and how == "hidden":
        pytest.skip("what autograd does not see is found in the first pass, in which it always happens")
    model = InPlace("never" if later else how)
    adapter = adapt(model, sites=["first"])
    task, batch = whole({"x": torch.randn(4, 3, 4)})
    if later:
        look(adapter, task, batch)
        model.how = how
    for _ in range(3):
        seen = look(adapter, task, batch)
        assert torch.equal(seen.states["first"], model.first(batch.inputs["x"]))
        same = seen.masked_at("first", batch.valid, torch.zeros(4))["output"].raw
        assert torch.equal(same, seen.original["output"].raw)
        assert torch.equal(seen.states["first"], model.first(batch.inputs["x"]))
    assert adapter.in_place is (how != "never")
