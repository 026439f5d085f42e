"""Amortised gates: read the model's states, decide for every unit, once fitted on any input.

An *input probe* masks the input and has one voter per depth; each reads the input state and the state at its depth,
and a unit is kept only if every voter up to the chosen depth keeps it. A *hidden probe* masks the site it reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError
from ..settings import check_choices
from .baseline import Baseline, BaselineConfig
from .hard_concrete import HardConcrete
from .score_function import ScoreFunction
from .voter import PublishedVoter, Voter
from .votes import Gate, Votes


@dataclass(frozen=True)
class ProbeConfig:
    """What decides, and from where it starts."""

    kind: Annotated[Literal["input", "hidden"], "mask the input, or each hidden state"] = "input"
    gate: Annotated[Literal["hard-concrete", "reinforce"], "how a logit becomes a decision"] = "hard-concrete"
    voter: Annotated[Literal["standard", "published"], "the network that votes"] = "standard"
    hidden: Annotated[int, "its hidden width; 0 takes a quarter of the state's, at least 32"] = 0
    start_open: Annotated[float, "share of units kept at the first step"] = 0.9
    bound: Annotated[float, "largest logit"] = 9.0
    temperature: Annotated[float, "of the Hard Concrete"] = 0.5
    low: Annotated[float, "lower end of its stretch"] = -0.2
    high: Annotated[float, "upper end of its stretch"] = 1.2
    baseline: BaselineConfig = field(default_factory=BaselineConfig)

    def __post_init__(self) -> None:
        check_choices(self, "probe")
        if self.hidden < 0:
            raise SettingError(f"probe.hidden must be 0 or a width, got {self.hidden}")
        if not 0 < self.start_open < 1:
            raise SettingError(
                f"probe.start_open must lie between 0 and 1, got {self.start_open}: 0.8 to 0.9 work well"
            )

    def make_gate(self) -> Gate:
        if self.gate == "reinforce":
            return ScoreFunction()
        return HardConcrete(self.temperature, self.low, self.high)


class Probe(nn.Module, ABC):
    """A gate network per depth and a baseline per masked site."""

    def __init__(self, site_names: Sequence[str], widths: Sequence[int], config: ProbeConfig) -> None:
        super().__init__()
        self.site_names, self.widths, self.config = tuple(site_names), tuple(widths), config
        self.gates = [config.make_gate() for _ in site_names]  # REINFORCE keeps an average per depth
        self.gate_states = nn.ModuleList(gate for gate in self.gates if isinstance(gate, nn.Module))
        self.voters = nn.ModuleList(self._make_voter(depth) for depth in range(self.depth_count))
        masked = [widths[index] for index in self.masked_indices]
        self.baselines = Baseline(masked, config.baseline.learned, config.baseline.shared)

    @property
    def depth_count(self) -> int:
        return len(self.site_names)

    @property
    @abstractmethod
    def masked_indices(self) -> Sequence[int]:
        """Which sites are ever masked, one per baseline."""

    @abstractmethod
    def site_index(self, depth: int) -> int:
        """Return which site is masked at `depth`."""

    @abstractmethod
    def voters_at(self, depth: int) -> Sequence[int]:
        """Return which voters decide at `depth`."""

    @abstractmethod
    def reads(self, depth: int) -> Sequence[int]:
        """Return the sites whose states the voter of `depth` reads."""

    def voter(self, depth: int) -> Voter | PublishedVoter:
        """Return the network that votes at `depth`."""
        return cast(Voter | PublishedVoter, self.voters[depth])

    def site_name(self, depth: int) -> str:
        return self.site_names[self.site_index(depth)]

    def baseline(self, depth: int) -> Float[Tensor, " hidden"]:
        """Return what stands in for a masked unit at `depth`."""
        return self.baselines(self.masked_indices.index(self.site_index(depth)))

    def forward(self, states: Mapping[str, Tensor], depth: int) -> Votes:
        """Let every voter that decides at `depth` vote on every unit."""
        logits = [self.voter(k)(self._input(states, k)) for k in self.voters_at(depth)]
        return Votes(torch.stack(logits), self.gates[depth])

    def log_keep(self, states: Mapping[str, Tensor]) -> Float[Tensor, "depth batch unit"]:
        """Return the log probability of being kept at every depth, each voter asked once."""
        votes = [self.gates[k].log_open(self.voter(k)(self._input(states, k))) for k in range(self.depth_count)]
        return torch.stack([torch.stack([votes[k] for k in self.voters_at(d)]).sum(0) for d in range(len(votes))])

    def standardise(self, means: Sequence[Tensor], stds: Sequence[Tensor]) -> None:
        """Tell each voter what is usual at the sites it reads."""
        for depth in range(self.depth_count):
            mean, std = (torch.cat([stats[i] for i in self.reads(depth)]) for stats in (means, stds))
            self.voter(depth).standardise(mean, std)

    def _input(self, states: Mapping[str, Tensor], depth: int) -> Float[Tensor, "batch unit inputs"]:
        return torch.cat([states[self.site_names[i]].float() for i in self.reads(depth)], dim=-1)

    def _make_voter(self, depth: int) -> nn.Module:
        inputs = sum(self.widths[i] for i in self.reads(depth))
        hidden = self.config.hidden or max(32, self.widths[depth] // 4)
        if self.config.voter == "published":
            return PublishedVoter(inputs, hidden)
        # Votes multiply: each starts at the root of the share asked for, so that the product is that share.
        share = self.config.start_open ** (1 / len(self.voters_at(self.depth_count - 1)))
        return Voter(inputs, hidden, self.gates[depth].logit_of(share), self.config.bound)


class InputProbe(Probe):
    """Masks the first site; the voter of each depth reads the input state and the state there; votes multiply."""

    masked_indices = (0,)

    def site_index(self, depth: int) -> int:
        return 0

    def voters_at(self, depth: int) -> Sequence[int]:
        return range(depth + 1)

    def reads(self, depth: int) -> Sequence[int]:
        return (0, depth) if depth else (0,)


class HiddenProbe(Probe):
    """Masks the site it reads, each depth on its own."""

    @property
    def masked_indices(self) -> Sequence[int]:
        return range(self.depth_count)

    def site_index(self, depth: int) -> int:
        return depth

    def voters_at(self, depth: int) -> Sequence[int]:
        return (depth,)

    def reads(self, depth: int) -> Sequence[int]:
        return (depth,)


def make_probe(site_names: Sequence[str], widths: Sequence[int], config: ProbeConfig) -> Probe:
    """Build the probe that `config` describes."""
    return (InputProbe if config.kind == "input" else HiddenProbe)(site_names, widths, config)
