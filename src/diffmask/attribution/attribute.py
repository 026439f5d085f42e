"""Ask one method about many examples: the same call for ours and for every rival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..errors import ExampleError, SettingError
from ..explaining.chunks import Chunk, check_fit, chunks
from ..explaining.explain import check_depth
from ..gates.probe import Probe
from ..training.fit import Fit
from . import METHODS
from .comparisons import Comparisons
from .method import Method, Question
from .probe import ProbeScores
from .ranking import RankScores


def attribute(
    fitted: Fit,
    examples: Sequence[Any],
    method: str | Method,
    *,
    depth: int | str = -1,
    batch_size: int = 16,
) -> list[Float[Tensor, " _"]]:
    """Score the units of each example by a method; larger is more important, nothing is below 0.

    >>> fitted = diffmask.load_embedded()                                                        # doctest: +SKIP
    >>> diffmask.attribute(fitted, texts, "integrated-gradients")                                # doctest: +SKIP
    >>> diffmask.attribute(fitted, texts, IntegratedGradients(steps=200))                        # doctest: +SKIP

    A method is one of those that `diffmask list` names, or one made with settings of one's own. It is asked where the
    probe masks at `depth`, and a removed unit becomes for it what it becomes for the probe. The scores belong to
    `fitted.task.units(examples)`; `certify` cuts an order of them where a margin is measured to hold.
    """
    check_fit(fitted)
    if batch_size < 1:
        raise SettingError(f"batch_size must be at least 1, got {batch_size}")
    chosen = check_depth(fitted.probe, depth)
    asked = make_method(method, fitted.probe, chosen) if isinstance(method, str) else method
    site, baseline = fitted.probe.site_index(chosen), fitted.probe.baseline(chosen)
    found: dict[int, Tensor] = {}
    for chunk, batch in chunks(fitted, examples, batch_size):
        question = Question(fitted.model, fitted.task, batch, site, None if baseline is None else baseline.detach())
        found |= _by_row(chunk, asked(question).cpu(), len(examples))
    return [found[row] for row in range(len(examples))]


def _by_row(chunk: Chunk, scores: Float[Tensor, "batch unit"], count: int) -> dict[int, Float[Tensor, " _"]]:
    """Take the scores of a batch apart, without padding, and refuse what is no order."""
    each = [scored[real] for scored, real in zip(scores, chunk.valid, strict=True)]
    for row, scored in zip(chunk.rows, each, strict=True):
        if not bool(scored.isfinite().all()):
            raise ExampleError("the method's scores are NaN or infinite there: ask another, or in float32", row, count)
    return dict(zip(chunk.rows, each, strict=True))


def make_method(name: str, probe: Probe | None, depth: int) -> Method:
    """Make a method of the table; ours are told of the fitted probe, where there is one."""
    ranks = probe is not None and probe.config.voter == "ranker"
    if name == "probe" and probe is None:
        raise SettingError("method 'probe' needs a fitted probe: pass what diffmask.fit returned, not the model alone")
    if name == "ranking" and not ranks:
        raise SettingError(
            "method 'ranking' needs a fitted one: ask about a fit by the recipe ranking, or give, in Python, "
            "RankScores(fit(..., recipe('ranking')).probe)"
        )
    if name == "comparisons":
        return Comparisons(probe if ranks else None, depth=depth)
    own: dict[str, type[ProbeScores] | type[RankScores]] = {"probe": ProbeScores, "ranking": RankScores}
    if name in own and probe is not None:
        return own[name](probe, depth)
    made: Method = METHODS.get(name)()
    return made
