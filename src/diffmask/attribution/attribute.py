"""Ask one method about many examples: the same call for ours and for every rival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..errors import ExampleError, SettingError
from ..explaining.chunks import Chunk, check_fit, chunks
from ..explaining.explain import check_depth
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
    chosen = check_depth(fitted.probe, depth)
    asked = as_method(method, fitted)
    site, baseline = fitted.probe.site_index(chosen), fitted.probe.baseline(chosen)
    baseline = None if baseline is None else baseline.detach()
    found: dict[int, Tensor] = {}
    for chunk, batch in chunks(fitted, examples, batch_size):
        question = Question(fitted.model, fitted.task, batch, site, baseline, chosen)
        found |= _by_row(chunk, asked(question).cpu(), len(examples))
    return [found[row] for row in range(len(examples))]


def _by_row(chunk: Chunk, scores: Float[Tensor, "batch unit"], count: int) -> dict[int, Float[Tensor, " _"]]:
    """Take the scores of a batch apart, without padding, and refuse what is no order."""
    each = [scored[real] for scored, real in zip(scores, chunk.valid, strict=True)]
    for row, scored in zip(chunk.rows, each, strict=True):
        if not bool(scored.isfinite().all()):
            raise ExampleError("the method's scores are NaN or infinite there: ask another, or in float32", row, count)
    return dict(zip(chunk.rows, each, strict=True))


def as_method(method: Any, fitted: Fit | None) -> Method:
    """Make a method that is given by name, and refuse what is none."""
    if isinstance(method, str):
        return make_method(method, fitted)
    if not isinstance(method, Method):
        raise SettingError(
            f"a method is a name or one made with settings, IntegratedGradients(steps=50), got {method!r}"
        )
    return method


def make_method(name: str, fitted: Fit | None) -> Method:
    """Make a method of the table; ours are told of the fitted probe, where there is one."""
    ranked = fitted if fitted is not None and fitted.probe.config.voter == "ranker" else None
    if name == "probe" and fitted is None:
        raise SettingError("method 'probe' needs a fitted probe: pass what diffmask.fit returned, not the model alone")
    if name == "ranking" and ranked is None:
        raise SettingError(
            "method 'ranking' needs a fitted one: ask about a fit by the recipe ranking, or give, in Python, "
            "RankScores(fit(..., recipe('ranking')).probe)"
        )
    if name == "comparisons" and ranked is not None:
        return Comparisons.after(ranked)
    own: dict[str, type[ProbeScores] | type[RankScores]] = {"probe": ProbeScores, "ranking": RankScores}
    if name in own and fitted is not None:
        return own[name](fitted.probe)
    made: Method = METHODS.get(name)()
    return made
