"""What a user gets: which units are kept at which depth, and what was measured when the model ran on them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from .errors import DataError, SettingError
from .registry import Registry
from .storage import load_tensors, save_tensors

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

KIND = "explanation"
Labels = Sequence[str] | Mapping[str, str]  # what indices are called: all in order, or those (and places) that occur
VIEWS = Registry(  # how an explanation shows itself: drawn in later rooms, imported when asked for
    "view",
    {
        "show": "diffmask.report.show:show",
        "plot": "diffmask.report.plot:plot",
        "words": "diffmask.report.words:words",
        "dataframe": "diffmask.report.words:dataframe",
        "page": "diffmask.page.single:page",
        "fragment": "diffmask.page.html:fragment_html",
    },
)


@dataclass(frozen=True)
class Verification:
    """The model run on the kept units alone, against the model run on everything."""

    divergence: float
    margin: float
    measure: str
    original: Mapping[str, Any]
    masked: Mapping[str, Any]

    @property
    def within_margin(self) -> bool:
        return self.divergence <= self.margin

    @property
    def same_prediction(self) -> bool | None:
        """Whether every decision stayed the same; None for a model that predicts values and decides nothing."""
        decided = [name for name, answer in self.original.items() if not is_value(answer)]
        return all(self.original[name] == self.masked[name] for name in decided) if decided else None


def is_value(answer: Any) -> bool:
    """Say whether an answer is a number, or several, which never stays the same to the bit."""
    return all(map(is_value, answer)) if isinstance(answer, list) and answer else isinstance(answer, float)


def place_of(decided: Mapping[str, Any]) -> str:
    """Write several decisions as one, as a target is written: a span from 3 to 5 is 3:5."""
    return ":".join(map(str, decided.values()))


@dataclass(frozen=True, eq=False)
class Explanation:
    """One example explained. `scores` are log probabilities of being kept; `kept` is the set at `depth`.

    Without a verification nothing is claimed: `verified` is False and the margin is unknown.
    """

    units: tuple[str, ...]
    depths: tuple[str, ...]
    scores: Float[Tensor, "depth unit"]
    depth: int
    kept: Bool[Tensor, " unit"]
    verification: Verification | None = None
    certified: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.scores.shape != (len(self.depths), len(self.units)) or self.kept.shape != (len(self.units),):
            raise SettingError(
                f"an explanation of {len(self.units)} units at {len(self.depths)} depths needs scores of that shape, "
                f"got scores {tuple(self.scores.shape)} and kept {tuple(self.kept.shape)}"
            )

        if self.certified and not self.verified:
            raise SettingError("a certified explanation needs a verification within its margin: use certify()")

    @property
    def verified(self) -> bool:
        """Whether the kept set was run and held the margin."""
        return self.verification is not None and self.verification.within_margin

    @property
    def kept_units(self) -> tuple[str, ...]:
        return tuple(unit for unit, keep in zip(self.units, self.kept.tolist(), strict=True) if keep)

    def show(self) -> None:
        """Show the explanation: in a notebook as HTML, elsewhere in the terminal."""
        VIEWS.get("show")(self)

    def plot(self, image: Any = None, *, depth: int | None = None) -> Figure:
        """Draw units by depth, or over an image the patches kept at a depth, as a figure of matplotlib."""
        return VIEWS.get("plot")(self, image, depth=depth)

    def to_html(self, text: str | None = None, image: Any = None, *, title: str | None = None) -> str:
        """Return a page with a slider over depth, whole in itself: write it to a file and open that."""
        return VIEWS.get("page")(self, text, image, title=title)

    def to_dataframe(self) -> DataFrame:
        """Return one row per unit: its text, whether it is kept, and its probability of being kept at each depth."""
        return VIEWS.get("dataframe")(self)

    def words(self) -> Explanation:
        """Return the explanation with the pieces of a word as one unit, kept if any piece is and scored by its highest.

        The check holds for pieces. Where a kept word was kept only in part, the word was not run, so the result is not
        verified; `info["verified_pieces"]` has what was measured.
        """
        return VIEWS.get("words")(self)

    def _repr_html_(self) -> str:
        return VIEWS.get("fragment")(self)

    def save(self, path: str | Path) -> None:
        """Write scores and kept set as safetensors, the rest as JSON in its header."""
        info = {
            "units": self.units,
            "depths": self.depths,
            "depth": self.depth,
            "verification": None if self.verification is None else asdict(self.verification),
            "certified": self.certified,
            "info": dict(self.info),
        }
        save_tensors(path, KIND, {"scores": self.scores, "kept": self.kept}, info)

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read what `save` wrote."""
        tensors, info = load_tensors(path, KIND)
        measured = info["verification"]
        return cls(
            units=tuple(info["units"]),
            depths=tuple(info["depths"]),
            scores=tensors["scores"],
            depth=info["depth"],
            kept=tensors["kept"],
            verification=None if measured is None else Verification(**measured),
            certified=info["certified"],
            info=info["info"],
        )


def to_pixels(
    scores: Float[Tensor, "*rest unit"],
    grid: tuple[int, int],
    size: tuple[int, int],
    how: Literal["nearest", "bilinear"] = "nearest",
) -> Float[Tensor, "*rest height width"]:
    """Lay the scores of an image's patches out over its pixels: each patch evenly, or blended with its neighbours.

    >>> import torch
    >>> to_pixels(torch.tensor([1.0, 2.0]), grid=(1, 2), size=(1, 4))
    tensor([[1., 1., 2., 2.]])

    The patches are in the order of reading, `grid` is (rows, columns) and `size` (height, width) in pixels.
    """
    if scores.shape[-1] != grid[0] * grid[1]:
        raise DataError(
            f"{scores.shape[-1]} scores are not one for each patch of a grid of {grid[0]}×{grid[1]}: pass the grid of "
            "the images, task.grid"
        )
    if how not in ("nearest", "bilinear"):
        raise SettingError(f"scores are laid out over pixels by 'nearest' or 'bilinear', got '{how}'")
    maps = scores.reshape(1, -1, *grid)
    mode = "nearest-exact" if how == "nearest" else how  # exact: a pixel belongs to the patch its middle lies in
    return F.interpolate(maps.float(), size, mode=mode).reshape(*scores.shape[:-1], *size)
