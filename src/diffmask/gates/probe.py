"""Amortised gates: read the model's states, decide for every unit, once fitted on any input.

An *input probe* masks the input and has one voter per depth, which reads the input state and the state at its depth
and corrects, in log-odds, what the voters below it said; so a depth knows what every layer up to it knows. In the
published form a unit is kept only if every voter up to the depth keeps it, and all of them are trained by every depth.
A *hidden probe* masks the site it reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError
from ..settings import check_choices
from .baseline import Baseline, BaselineConfig
from .fused import Fused, FusedSums, fuse, version
from .hard_concrete import HardConcrete
from .ranker import Ranker
from .score_function import ScoreFunction
from .voter import LinearVoter, PublishedVoter, StandardVoter, Voter, ask, bounded
from .votes import Gate, Votes, span

OURS = ("standard", "linear")  # voters that start where they are told to, and may be corrected and averaged


@dataclass(frozen=True)
class ProbeConfig:
    """What decides, and from where it starts."""

    kind: Annotated[Literal["input", "hidden"], "mask the input, or each hidden state"] = "input"
    votes: Annotated[
        Literal["corrected", "separate", "coupled"],
        "input probe: each depth corrects the vote below, decides alone, or votes multiply and are trained together",
    ] = "corrected"
    removal: Annotated[
        Literal["baseline", "knockout"], "input probe: replace what is dropped, or hide it from all attention"
    ] = "baseline"
    gate: Annotated[Literal["hard-concrete", "reinforce"], "how a logit becomes a decision"] = "hard-concrete"
    voter: Annotated[
        Literal["standard", "linear", "published", "published-vision", "ranker"],
        "what votes: our network, a weighted sum, or one of the papers' networks; or one that orders units",
    ] = "standard"
    blocks: Annotated[int, "rankers: layers in which the units of an example look at each other"] = 2
    stretch: Annotated[float, "published voters: α, how far a logit may be from its bias"] = 10.0
    offset: Annotated[float, "published voters: β, where that bias starts"] = 5.0
    reads: Annotated[
        Literal["ends", "all"], "input probe: the voter of a depth reads the input and its own site, or all up to it"
    ] = "ends"
    hidden: Annotated[int, "its hidden width; 0 takes a quarter of the state's, at least 32"] = 0
    members: Annotated[int, "probes fitted from as many seeds, whose votes are averaged: seeds then agree better"] = 1
    start_open: Annotated[float, "share of units kept at the first step"] = 0.9
    bound: Annotated[float, "largest logit"] = 9.0
    spread: Annotated[float, "size of the first layer's weights: how far from linear a voter starts"] = 3.0
    temperature: Annotated[float, "of the Hard Concrete"] = 0.5
    low: Annotated[float, "lower end of its stretch"] = -0.2
    high: Annotated[float, "upper end of its stretch"] = 1.2
    baseline: BaselineConfig = field(default_factory=BaselineConfig)

    def __post_init__(self) -> None:
        check_choices(self, "probe")
        if self.voter == "ranker" and self.votes != "separate":
            raise SettingError(f"a ranker scores each depth alone, got votes = {self.votes}: use votes = separate")
        if self.voter not in OURS and self.votes == "corrected":
            raise SettingError(
                f"probe.voter = {self.voter} starts each vote at its own bias: use votes = coupled or separate"
            )
        if self.removal == "knockout" and self.kind == "hidden":
            raise SettingError("probe.removal = knockout hides input units from all layers: use it with kind = input")
        if self.members < 1:
            raise SettingError(f"probe.members must be at least 1, got {self.members}: it counts probes")
        if self.members > 1 and self.voter not in OURS:
            raise SettingError(f"probe.voter = {self.voter} cannot be averaged over members: use members = 1")
        for name, what in (("hidden", "0 or a width"), ("blocks", "0 or a number of layers")):
            if getattr(self, name) < 0:
                raise SettingError(f"probe.{name} must be {what}, got {getattr(self, name)}")
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

    shift: Tensor

    def __init__(
        self, site_names: Sequence[str], widths: Sequence[int], config: ProbeConfig, read_widths: Sequence[int]
    ) -> None:
        super().__init__()
        self.site_names, self.config = tuple(site_names), config
        self.widths, self.read_widths = tuple(widths), tuple(read_widths)
        self.gates = [config.make_gate() for _ in site_names]  # REINFORCE keeps an average per depth
        self.gate_states = nn.ModuleList(gate for gate in self.gates if isinstance(gate, nn.Module))
        self.voters = nn.ModuleList(self._make_voter(depth) for depth in range(self.depth_count))
        masked = [] if config.removal == "knockout" else [widths[index] for index in self.masked_indices]
        # The input has no position yet, so its baseline has none.
        positions = [config.baseline.positions if index else 0 for index in self.masked_indices][: len(masked)]
        self.baselines = Baseline(masked, config.baseline.learned, config.baseline.shared, positions)
        self.register_buffer("shift", torch.zeros(self.depth_count))  # set when the probe is calibrated
        self._kept_fused: tuple[tuple[object, ...], Fused | FusedSums | None] | None = None

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

    def voter(self, depth: int) -> StandardVoter | PublishedVoter:
        """Return what votes at `depth`."""
        return cast(StandardVoter | PublishedVoter, self.voters[depth])

    def site_name(self, depth: int) -> str:
        return self.site_names[self.site_index(depth)]

    def baseline(self, depth: int) -> Float[Tensor, " *position hidden"] | None:
        """Return what stands in for a masked unit at `depth`; nothing does where it is knocked out."""
        if self.config.removal == "knockout":
            return None
        return self.baselines(self.masked_indices.index(self.site_index(depth)))

    def forward(self, reading: Mapping[str, Tensor], depth: int) -> Votes:
        """Let every voter that decides at `depth` vote on every unit."""
        return self.votes(reading, [depth])[0]

    def votes(self, reading: Mapping[str, Tensor], depths: Sequence[int]) -> list[Votes]:
        """Return the votes at each of the depths, each voter asked once."""
        if self.config.voter == "ranker":
            scores = [self.rank(reading, depth) + self.shift[depth] for depth in depths]
            return [Votes(each.unsqueeze(0), self.gates[depth]) for depth, each in zip(depths, scores, strict=True)]
        asked = sorted({voter for depth in depths for voter in self.voters_at(depth)})
        # A vote that is only corrected from above is not trained here, and needs no gradient.
        trained = set(depths) if self.config.votes == "corrected" else set(asked)
        said = self._ask(reading, asked, trained)
        if self.config.votes == "coupled":
            each = {d: self._bounded(torch.stack([said[voter] for voter in self.voters_at(d)])) for d in depths}
            return [Votes(each[depth] + self.shift[depth], self.gates[depth]) for depth in depths]
        some = sorted(set(depths))
        logits = self._bounded(self._corrected(said, some)) + self.shift[span(some)].view(-1, 1, 1)
        rows = dict(zip(some, logits.unsqueeze(1).unbind(), strict=True))
        return [Votes(rows[depth], self.gates[depth]) for depth in depths]

    def _ask(self, reading: Mapping[str, Tensor], asked: Sequence[int], trained: set[int]) -> dict[int, Tensor]:
        """Return what each voter says."""
        said: dict[int, Tensor] = {}
        for learns, group in groupby(asked, key=trained.__contains__):
            with torch.set_grad_enabled(learns and torch.is_grad_enabled()):
                some = list(group)
                answers = ask([self.voter(voter) for voter in some], [self._input(reading, voter) for voter in some])
            said.update(zip(some, answers, strict=True))
        return said

    def _corrected(self, said: Mapping[int, Tensor], depths: Sequence[int]) -> Float[Tensor, "depth batch unit"]:
        """Add what lower voters say to what the voter of each depth says, where they decide with it."""
        total = torch.stack([said[depth] for depth in depths])
        with torch.no_grad():  # what lower depths decide is theirs: a deeper loss that trained it would blur depths
            for lower in (voter for voter in said if voter in self.voters_at(depths[-1])[:-1]):
                total[sum(depth <= lower for depth in depths) :].add_(said[lower])
        return total

    def _bounded(self, logits: Tensor) -> Tensor:
        return bounded(logits, self.config.bound) if self.config.voter in OURS else logits

    def rank(self, reading: Mapping[str, Tensor], depth: int) -> Float[Tensor, "batch unit"]:
        """Return the score of every unit at `depth`, where the voters are rankers, which ask which units are real."""
        ranker = self.voters[depth]
        if not isinstance(ranker, Ranker):
            raise SettingError("this probe chooses units and does not rank them: fit one by recipe('ranking')")
        return ranker(self._input(reading, depth), getattr(reading, "valid", None))

    def log_keep(self, reading: Mapping[str, Tensor]) -> Float[Tensor, "depth batch unit"]:
        """Return the log probability of being kept at every depth; without gradients all voters are asked at once."""
        fused = None if torch.is_grad_enabled() else self._fused()
        if fused is None:
            return torch.stack([votes.log_keep() for votes in self.votes(reading, range(self.depth_count))])
        with torch.autocast(self.shift.device.type, enabled=False):
            logits = fused([reading[name] for name in self.site_names])
        if len(self.voters_at(self.depth_count - 1)) > 1:  # corrected: what the voters up to a depth say adds up
            logits = logits.cumsum(0)
        logits = logits.clamp(-self.config.bound, self.config.bound) + self.shift.view(-1, 1, 1)
        return self.gates[0].log_open(logits)

    def _fused(self) -> Fused | FusedSums | None:
        """Return all voters as one, made anew when a weight has changed; None where each has to be asked alone."""
        if self.config.voter not in OURS or (self.config.votes == "coupled" and self.config.kind == "input"):
            return None
        voters = cast(list[StandardVoter], list(self.voters))  # as the settings say
        if (now := version(voters)) is None:
            return None
        if self._kept_fused is None or self._kept_fused[0] != now:
            reads = [self.reads(depth) for depth in range(self.depth_count)]
            self._kept_fused = now, fuse(voters, reads, self.read_widths)
        return self._kept_fused[1]

    def standardise(self, means: Sequence[Tensor], stds: Sequence[Tensor]) -> None:
        """Tell each voter what is usual at the sites it reads."""
        for depth in range(self.depth_count):
            mean, std = (torch.cat([stats[i] for i in self.reads(depth)]) for stats in (means, stds))
            cast(StandardVoter, self.voters[depth]).standardise(mean, std)  # or a ranker, which is told the same

    def _input(self, reading: Mapping[str, Tensor], depth: int) -> Float[Tensor, "batch unit inputs"]:
        return torch.cat([reading[self.site_names[i]].float() for i in self.reads(depth)], dim=-1)

    def _make_voter(self, depth: int) -> nn.Module:
        inputs = sum(self.read_widths[i] for i in self.reads(depth))
        hidden = self.config.members * (self.config.hidden or max(32, self.widths[depth] // 4))
        if self.config.voter == "ranker":
            return Ranker(inputs, hidden, self.config.blocks)
        if self.config.voter == "linear":
            return LinearVoter(inputs, self._start(depth))
        if self.config.voter != "standard":
            c = self.config
            return PublishedVoter(inputs, hidden, c.stretch, c.offset, inner=c.voter == "published-vision")
        return Voter(inputs, hidden, self._start(depth), self.config.spread)

    def _start(self, depth: int) -> float:
        """Return the logit a voter starts with, such that the share asked for is kept at the last depth."""
        share, voters = self.config.start_open, len(self.voters_at(self.depth_count - 1))
        if self.config.votes == "corrected" and voters > 1 and depth:
            return 0.0  # it has nothing to correct yet
        return self.gates[depth].logit_of(share ** (1 / voters) if self.config.votes == "coupled" else share)


class InputProbe(Probe):
    """Masks the first site; the voter of each depth reads the input state and the state there, or all between."""

    masked_indices = (0,)

    def site_index(self, depth: int) -> int:
        return 0

    def voters_at(self, depth: int) -> Sequence[int]:
        return (depth,) if self.config.votes == "separate" else range(depth + 1)

    def reads(self, depth: int) -> Sequence[int]:
        if self.config.reads == "all":
            return range(depth + 1)
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


def make_probe(
    site_names: Sequence[str],
    widths: Sequence[int],
    config: ProbeConfig,
    read_widths: Sequence[int] | None = None,
) -> Probe:
    """Build the probe that `config` describes; it may read more at each site than the state of a unit."""
    kind = InputProbe if config.kind == "input" else HiddenProbe
    return kind(site_names, widths, config, read_widths or widths)
