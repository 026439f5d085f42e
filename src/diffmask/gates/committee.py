"""Several probes as one: a committee that averages what its members say is a probe with wider voters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .probe import Probe, make_probe


@torch.no_grad()
def merge_probes(members: Sequence[Probe]) -> Probe:
    """Return the probe whose voters say what those of its members say on average.

    It masks by the mean of their baselines. Members have read the same states and differ in their seeds alone.
    """
    first, merged = members[0], _wider(members[0], len(members))
    said = merged.state_dict()
    for name, parts in _parts(members).items():
        if name.endswith(("first.weight", "first.bias")):
            said[name] = torch.cat(parts)
        elif name.endswith("last.weight"):
            said[name] = torch.cat(parts, dim=1) / len(members)
        else:
            said[name] = torch.stack(parts).mean(0)
    merged.load_state_dict(said)
    return merged.to(first.shift.device)


def _wider(probe: Probe, count: int) -> Probe:
    """Make a probe with voters `count` times as wide; the user's dice stay where they are."""
    with torch.random.fork_rng(devices=[]):
        config = replace(probe.config, members=count)
        return make_probe(probe.site_names, probe.widths, config, probe.read_widths)


def _parts(members: Sequence[Probe]) -> dict[str, list[Tensor]]:
    """Return each tensor of the members beside its like."""
    states = [member.state_dict() for member in members]
    return {name: [state[name] for state in states] for name in states[0]}
