"""Say no in one sentence and a status code, whoever says it."""

from __future__ import annotations

from collections.abc import Mapping


class Refusal(Exception):
    """A request that is not answered: the status code, and a sentence for whoever sent it."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def too_busy(sentence: str) -> Refusal:
    """Refuse for now, and say when to try again."""
    return Refusal(503, sentence, {"Retry-After": "1"})
