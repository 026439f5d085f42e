"""A progress bar that says how the masks are doing, or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .validate import DepthScore


class Bar:
    """Shows step, time left and the last validation on standard error."""

    def __init__(self, title: str, total: int, shown: bool) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=Console(stderr=True), disable=not shown)
        self.title, self.task = title, self.progress.add_task(title, total=total)

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def move_to(self, step: int) -> None:
        self.progress.update(self.task, completed=step)

    def advance(self, total: int) -> None:
        self.progress.update(self.task, advance=1, total=total)

    def say(self, what: str) -> None:
        """Show what is being done before the steps begin."""
        self.progress.update(self.task, description=f"{self.title}: {what}")

    def note(self, scores: Sequence[DepthScore]) -> None:
        """Show the last depth's score beside the bar."""
        last = scores[-1]
        self.progress.update(
            self.task, description=f"{self.title}  kept {last.kept:.2f}  divergence {last.divergence:.3f}"
        )
