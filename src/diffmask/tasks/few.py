"""What a program that goes through many texts says of them."""

from __future__ import annotations

import logging

TEXTS = "diffmask.texts"  # the logger of what is said of single texts


class FirstFew(logging.Filter):
    """Lets the first warnings about texts through: of a million that are cut, a few lines tell enough."""

    def __init__(self, left: int = 5) -> None:
        super().__init__()
        self.left, self.logger = left, logging.getLogger(TEXTS)

    def filter(self, record: logging.LogRecord) -> bool:
        self.left -= 1
        return self.left >= 0

    def __enter__(self) -> None:
        self.logger.addFilter(self)

    def __exit__(self, *_: object) -> None:
        self.logger.removeFilter(self)
