"""Needles: a decoder language model answers from one fact among distractors; is that fact what an explanation keeps?

Each prompt lists where people live and asks about one of them. A prompt counts only if the model really uses the
needle: with another city in that sentence it answers that city, and with another city in any other sentence it answers
as before. Units are sentences; the question is always kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..attribution.gradient_input import GradientInput
from ..attribution.leave_one_out import LeaveOneOut
from ..attribution.method import Method, Question
from ..attribution.probe import ProbeScores
from ..attribution.random import Random
from ..errors import DataError
from ..models.adapter import Adapter
from ..models.adapting import adapt
from ..tasks.text import NextToken
from ..tasks.units import Kept
from ..training.config import FitConfig, recipe
from ..training.fit import Fit, fit
from ..training.random import START, generator
from .result import write_result
from .seeds import made_with, run_seeds
from .setup import News, Setup
from .trained import device

PEOPLE = [
    "Anna",
    "Tom",
    "Maria",
    "John",
    "Lucy",
    "Peter",
    "Emma",
    "David",
    "Sarah",
    "Mark",
    "Julia",
    "Paul",
    "Laura",
    "Simon",
    "Alice",
    "Frank",
]
CITIES = [
    "Berlin",
    "Paris",
    "Rome",
    "Madrid",
    "London",
    "Vienna",
    "Dublin",
    "Tokyo",
    "Moscow",
    "Cairo",
    "Boston",
    "Chicago",
    "Denver",
    "Seattle",
]
MARGIN = 0.5
READ = 4  # sites that are read, spread over the layers


@dataclass(frozen=True)
class Prompt:
    """Facts in the order they are told, and which one is asked for."""

    facts: tuple[tuple[str, str], ...]  # (person, city)
    needle: int

    @property
    def segments(self) -> list[str]:
        person = self.facts[self.needle][0]
        asked = Kept(f"Question: Where does {person} live? Answer: {person} lives in")
        return [*(f"{who} lives in {city}." for who, city in self.facts), asked]

    @property
    def answer(self) -> str:
        return self.facts[self.needle][1]

    def changed(self, place: int, city: str) -> Prompt:
        """Return the prompt with another city in one fact."""
        who = self.facts[place][0]
        return replace(self, facts=(*self.facts[:place], (who, city), *self.facts[place + 1 :]))


@dataclass(frozen=True)
class Size:
    """How many prompts, and how long the probe is trained; the small one shows that everything runs."""

    facts: int = 6
    train: int = 512
    tested: int = 200
    steps: int = 300
    tries: int = 4000


FULL, SMALL = Size(), Size(facts=3, train=16, tested=4, steps=4, tries=4)


def run(setup: Setup) -> News:
    """Fit a probe per seed, rank the needle by every method, and say so as each seed ends; last comes the result."""
    size, work, encoder = SMALL if setup.small else FULL, setup.work("needles"), setup.find_encoder()
    yield setup.seeds
    done = {}
    run_one = partial(run_seed, size, encoder, setup.small)
    for seed, found in run_seeds(run_one, range(setup.seeds), work, repr(size), setup.jobs, setup.take_over):
        done[seed] = found
        yield f"seed {seed}: the needle ranks first in {found['rows'][0]['first']:.3f} of the prompts"
    rows = [row for seed in sorted(done) for row in done[seed]["rows"]]
    more = {"margin": MARGIN, "made_with": made_with(work, setup.seeds)}
    yield write_result(setup.output, "needles", setup.command, sorted(done), summarise(rows), rows, **more)


def draw_prompts(count: int, facts: int, seed: int) -> list[Prompt]:
    """Draw prompts: different people, different cities, one asked for."""
    draw = generator(seed, START)

    def pick(names: Sequence[str]) -> list[str]:
        return [names[i] for i in torch.randperm(len(names), generator=draw)[:facts].tolist()]

    places = torch.randint(facts, (count,), generator=draw).tolist()
    return [Prompt(tuple(zip(pick(PEOPLE), pick(CITIES), strict=True)), place) for place in places]


def run_seed(size: Size, encoder: Path, unchecked: bool, seed: int) -> dict[str, Any]:
    """Fit a probe to the model and compare how the methods rank the needles."""
    model, tokenizer = load_decoder(encoder)
    train = [prompt.segments for prompt in draw_prompts(size.train, size.facts, 2 * seed)]
    task = NextToken(tokenizer, train, train[: size.train // 8], unit="segment")
    tested = draw_prompts(size.tries, size.facts, 2 * seed + 1)
    if not unchecked:
        tested = needles(model, task, tokenizer, tested)[: size.tested]
    if len(tested) < size.tested:
        raise DataError(f"the model uses only {len(tested)} of {size.tries} needles, {size.tested} are asked for")
    fitted = fit(model, task, config(size, seed))
    fitted.model.model.to(device())
    fitted.probe.to(device())
    rows = [{"seed": seed, **row} for row in compare(fitted, tested, seed)]
    return {"rows": rows, "tested": len(tested)}


def load_decoder(encoder: Path) -> tuple[Adapter, Any]:
    """Load a causal language model and read it at a few of its layers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(encoder, dtype=torch.float32)
    every = adapt(model, tokenizer).sites
    chosen = torch.linspace(0, len(every) - 1, READ).round().int().tolist()
    return adapt(model, tokenizer, sites=[every[i] for i in chosen]), tokenizer


def config(size: Size, seed: int) -> FitConfig:
    """Return the settings of a probe: nothing stands in for a sentence, nobody may attend to it."""
    how = {"removal": "knockout", "positions": 0, "margin": MARGIN, "batch_size": 16}
    return recipe("text", steps=size.steps, seed=seed, **how)


def needles(model: Adapter, task: NextToken, tokenizer: Any, prompts: Sequence[Prompt]) -> list[Prompt]:
    """Keep the prompts whose answer changes with the needle and with nothing else."""
    answer = partial(first_tokens, tokenizer)

    def says(some: Sequence[Prompt]) -> Int[Tensor, " prompt"]:
        return answers(model, task, some)

    right = (says(prompts) == answer([p.answer for p in prompts])).tolist()
    kept = [p for p, ok in zip(prompts, right, strict=True) if ok]
    return [p for p, ok in zip(kept, uses_needle(kept, says, answer), strict=True) if ok]


def uses_needle(
    prompts: Sequence[Prompt], says: Callable[[Sequence[Prompt]], Tensor], answer: Callable[[Sequence[str]], Tensor]
) -> list[bool]:
    """Say of each prompt whether changing the needle changes the answer to match, and changing another does not."""
    used = torch.ones(len(prompts), dtype=torch.bool)
    for place in range(len(prompts[0].facts)) if prompts else ():
        new = [next(c for c in CITIES if c not in dict(p.facts).values()) for p in prompts]
        changed = [p.changed(place, city) for p, city in zip(prompts, new, strict=True)]
        used &= says(changed) == answer([p.answer for p in changed])
    return used.tolist()


def first_tokens(tokenizer: Any, words: Sequence[str]) -> Int[Tensor, " word"]:
    """Return the first token of each word as it stands after a space."""
    return torch.tensor([tokenizer(f" {word}", add_special_tokens=False)["input_ids"][0] for word in words])


@torch.no_grad()
def answers(model: Adapter, task: NextToken, prompts: Sequence[Prompt], size: int = 32) -> Int[Tensor, " prompt"]:
    """Return the token the model would say next after each prompt."""
    said = []
    with model.frozen(), model.on(device()):
        for start in range(0, len(prompts), size):
            batch = task.collate([p.segments for p in prompts[start : start + size]]).to(device())
            said.append(task.read(model(batch), batch)["next token"].raw.argmax(-1).cpu())
    return torch.cat(said) if said else torch.zeros(0, dtype=torch.long)


def compare(fitted: Fit, prompts: Sequence[Prompt], seed: int) -> list[dict[str, Any]]:
    """Rank the needle among the sentences of its prompt by every method; the probe at every depth."""
    rows = []
    for depth, site in reversed(list(enumerate(fitted.probe.site_names))):
        scores = score(fitted, prompts, ProbeScores(fitted.probe), depth)
        rows.append(
            {"method": "probe", "depth": depth, "site": site, **ranks(scores, prompts), **kept(scores, prompts)}
        )
    for name, method in {
        "leave-one-out": LeaveOneOut(),
        "gradient-input": GradientInput(),
        "random": Random(seed),
    }.items():
        rows.append({"method": name, "depth": 0, **ranks(score(fitted, prompts, method, 0), prompts)})
    return rows


def score(
    fitted: Fit, prompts: Sequence[Prompt], method: Method, depth: int, size: int = 16
) -> list[Float[Tensor, " unit"]]:
    """Score the sentences of every prompt."""
    found: list[Tensor] = []
    for start in range(0, len(prompts), size):
        batch = fitted.task.collate([p.segments for p in prompts[start : start + size]]).to(device())
        scores = method(Question(fitted.model, fitted.task, batch, depth, None)).cpu()
        found += [row[valid] for row, valid in zip(scores, batch.valid.cpu(), strict=True)]
    return found


def ranks(scores: Sequence[Tensor], prompts: Sequence[Prompt]) -> dict[str, float]:
    """Return the needle's mean rank, 1 being the highest score, ties counted as halves, and how often it is first."""
    found = [
        1 + float((row > row[p.needle]).sum()) + float((row == row[p.needle]).sum() - 1) / 2
        for row, p in zip(scores, prompts, strict=True)
    ]
    return {"rank": mean(found), "first": mean(float(rank == 1) for rank in found)}


def kept(scores: Sequence[Tensor], prompts: Sequence[Prompt]) -> dict[str, float]:
    """Return how many sentences are kept, and how often the needle is among them."""
    sets = [(row > 0.5, p.needle) for row, p in zip(scores, prompts, strict=True)]
    return {"kept": mean(float(k.sum()) for k, _ in sets), "needle_kept": mean(float(k[n]) for k, n in sets)}


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Reduce the rows to the needle's rank by each method, the probe's at its last depth."""
    last = max(row["depth"] for row in rows)
    chosen = [row for row in rows if row["method"] != "probe" or row["depth"] == last]
    names = sorted({row["method"] for row in chosen})

    def over_seeds(name: str, key: str) -> float:
        return mean(row[key] for row in chosen if row["method"] == name)

    found: dict[str, Any] = {"seeds": len({row["seed"] for row in rows})}
    for name in names:
        key = name.replace("-", "_")
        found |= {f"{key}_rank": over_seeds(name, "rank"), f"{key}_first": over_seeds(name, "first")}
    return found | {"kept": over_seeds("probe", "kept"), "needle_kept": over_seeds("probe", "needle_kept")}
