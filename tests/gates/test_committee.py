"""A committee says what its members say on average."""

import pytest
import torch

from diffmask.errors import SettingError
from diffmask.gates.committee import merge_probes
from diffmask.gates.probe import ProbeConfig, make_probe

NAMES, WIDTHS = ("a", "b", "c"), (6, 8, 6)


def members(count=3, **settings):
    """Probes that differ in what they think, not in what they count as usual."""
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        probe = make_probe(NAMES, WIDTHS, ProbeConfig(bound=100.0, **settings))
        for parameter in probe.parameters():
            torch.nn.init.normal_(parameter)
        probe.standardise(
            [torch.full((width,), 0.3) for width in WIDTHS], [torch.full((width,), 2.0) for width in WIDTHS]
        )
        found.append(probe)
    return found


def logits(probe):
    torch.manual_seed(9)
    states = {name: torch.randn(2, 5, width) for name, width in zip(NAMES, WIDTHS, strict=True)}
    return [votes.logits for votes in probe.votes(states, range(3))]


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "hidden"},
        {"kind": "input"},
        {"votes": "separate"},
        {"votes": "coupled"},
        {"hidden": 5},
        {"voter": "linear"},
        {"voter": "linear", "kind": "hidden"},
    ],
    ids=str,
)
def test_a_committee_says_what_its_members_say_on_average(settings):
    probes = members(**settings)
    for merged, *each in zip(logits(merge_probes(probes)), *map(logits, probes), strict=True):
        torch.testing.assert_close(merged, torch.stack(each).mean(0), rtol=1e-4, atol=1e-4)


def test_a_committee_of_linear_voters_is_no_wider_than_one_of_them():
    probes = members(voter="linear")
    assert [p.shape for p in merge_probes(probes).parameters()] == [p.shape for p in probes[0].parameters()]


def test_it_masks_by_the_mean_of_their_baselines():
    probes = members(kind="hidden")
    for depth in range(3):
        mean = torch.stack([probe.baseline(depth) for probe in probes]).mean(0)
        torch.testing.assert_close(merge_probes(probes).baseline(depth), mean)


def test_merging_leaves_the_users_dice_alone():
    probes = members()
    torch.manual_seed(5)
    expected = torch.rand(())
    torch.manual_seed(5)
    merge_probes(probes)
    assert torch.rand(()) == expected


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"members": 0}, "members must be at least 1, got 0"),
        ({"members": 2, "voter": "published", "votes": "coupled"}, "voter = published cannot be averaged over members"),
    ],
)
def test_what_cannot_be_a_committee_is_refused(settings, words):
    with pytest.raises(SettingError, match=words):
        ProbeConfig(**settings)
