"""What the service knows and does, without HTTP: check an example, put it in the queue, explain what comes out of it.

Every explanation is made by the same `explain` and `certify` that a program calls, so the answers are theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..errors import DataError
from ..explaining.certify import certify, with_margin
from ..explaining.explain import check_depth, explain
from ..explaining.explain import info as about
from ..explanation import Explanation
from ..pictures import open_picture
from ..provenance import versions
from ..report.plain import record
from ..tasks.checks import check_text
from ..tasks.images import ImageClassification
from ..tasks.text_task import TextTask
from ..training.fit import Fit
from .batching import Batcher, ClosedError, FullError
from .limits import Limits
from .refusal import Refusal, too_busy

DECODED = 2  # images at a time: decoded they are large, and what waits for the model are small tensors
AT_DEPTH = ("depth", "kept", "verification", "certified")


@dataclass(frozen=True)
class Wanted:
    """How to explain; requests that want the same share a pass. No depth means every depth."""

    depth: int | None
    verify: bool = True
    certify: bool = False
    margin: float | None = None


class Service:
    """A fitted probe with its queue; use it in a `with` block, which starts the thread that owns the model."""

    def __init__(self, fitted: Fit, limits: Limits | None = None, name: str | None = None) -> None:
        self.fitted, self.limits = fitted, limits or Limits()
        self.takes = _takes(fitted)
        self.name = name or _name(fitted)
        self.decoding = asyncio.Semaphore(DECODED)
        limits = self.limits
        self.queue = Batcher(self._explain, most=limits.batch, wait=limits.wait, room=limits.queue)

    def __enter__(self) -> Service:
        self.queue.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.__exit__()

    def wanted(self, depth: int | str, verify: bool, certified: bool, margin: float | None) -> Wanted:
        """Read the settings of a request; a depth that does not exist is refused."""
        if depth == "all":
            return Wanted(None, verify, certified, margin)
        return Wanted(check_depth(self.fitted.probe, depth), verify, certified, margin)

    def texts(self, given: Sequence[Any]) -> list[Any]:
        """Check texts before they wait; a list of two is a pair."""
        if self.takes != "text":
            raise Refusal(
                422, "this model reads images: send one as 'image', in base64, or as a file to /explain/image"
            )
        limits = self.limits
        if len(given) > limits.examples:
            raise Refusal(422, f"{len(given)} texts are more than the {limits.examples} of one request: send several")
        texts = [tuple(text) if isinstance(text, list) else text for text in given]
        for text in texts:
            length = sum(map(len, text)) if isinstance(text, tuple) else len(text)
            if length > limits.characters:
                raise Refusal(422, f"a text has {length} characters, more than the {limits.characters}: shorten it")
            check_text(text)  # before it waits: what fails in a batch makes every other run again
        return texts

    def image(self, content: bytes) -> Any:
        """Make an image file into what the model takes; its size is checked before it is decoded."""
        task = self.fitted.task
        if not isinstance(task, ImageClassification):
            raise Refusal(422, "this model reads texts: send one as 'text'")
        most = min(self.limits.pixels, task.most_pixels)
        try:
            return task.pixels(open_picture(content, most=most))
        except DataError:
            raise
        except Exception as error:  # what a decoder raises on bytes that were made to break it is anyone's guess
            raise DataError(f"an image cannot be decoded ({type(error).__name__}): save it anew") from error

    def submit(self, wanted: Wanted, examples: Sequence[Any]) -> Any:
        """Put examples in the queue and return a future; with no room there, refuse."""
        try:
            return self.queue.submit(wanted, examples)
        except FullError:
            raise too_busy("too many requests are waiting: try again in a moment") from None
        except ClosedError:
            raise too_busy("the service is stopping: start it again") from None

    def info(self) -> dict[str, Any]:
        """Describe the model, its probe and the limits in plain data."""
        objective = self.fitted.config.objective
        return {
            "model": self.name,
            "fingerprint": self.fitted.fingerprint,
            "takes": self.takes,
            "pairs": getattr(self.fitted.task, "pairs", False),
            "kind": self.fitted.config.probe.kind,
            "depths": list(self.fitted.probe.site_names),
            "margin": objective.margin,
            "measure": objective.divergence,
            "labels": about(self.fitted).get("labels"),
            "limits": asdict(self.limits),
            "fit": [asdict(score) for score in self.fitted.scores],
            "versions": versions(),
        }

    def _explain(self, wanted: Wanted, examples: list[Any]) -> list[dict[str, Any]]:
        depths = range(self.fitted.probe.depth_count) if wanted.depth is None else [wanted.depth]
        try:
            found = [self._at_depth(wanted, examples, depth) for depth in depths]
        finally:
            self.fitted.task.forget()
        rows = zip(examples, zip(*found, strict=True), strict=True)
        return [_described(example, row, wanted.depth is None) for example, row in rows]

    def _at_depth(self, wanted: Wanted, examples: list[Any], depth: int) -> list[Explanation]:
        size = self.limits.batch
        if wanted.certify:
            return certify(self.fitted, examples, depth=depth, margin=wanted.margin, batch_size=size)
        fitted = self.fitted if wanted.margin is None else with_margin(self.fitted, wanted.margin)
        return explain(fitted, examples, depth=depth, verify=wanted.verify, batch_size=size)


def _described(example: Any, row: Sequence[Explanation], every: bool) -> dict[str, Any]:
    """Write one example down as JSON carries it; at the top stands the last of its depths."""
    text = None if not isinstance(example, str | tuple) else list(example) if isinstance(example, tuple) else example
    whole = {**record(row[-1], ""), "text": text, "grid": row[-1].info.get("grid")}
    if every:
        records = [record(each, "") for each in row]
        whole["at_depths"] = [{name: each[name] for name in AT_DEPTH} for each in records]
    return whole


def _takes(fitted: Fit) -> Literal["text", "image"]:
    if isinstance(fitted.task, TextTask):
        return "text"
    if isinstance(fitted.task, ImageClassification):
        return "image"
    raise DataError(
        f"a {type(fitted.task).__name__} reads neither texts nor images, so nothing can be sent to it: serve a run "
        "that was fitted to texts or images, or call diffmask.explain"
    )


def _name(fitted: Fit) -> str:
    """Name the model by what it was loaded from, without the directories of this machine."""
    path = str(getattr(getattr(fitted.model.model, "config", None), "_name_or_path", "") or "")
    kind = type(fitted.model.model).__name__
    return f"{kind} ({path.replace(chr(92), '/').rstrip('/').split('/')[-1]})" if path else kind
