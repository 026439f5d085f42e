"""Units of byte-level tokenizers (GPT-2, Llama 3, Qwen), which write a letter per byte, as text."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence

THEMSELVES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # bytes that stand for themselves
OTHERS = (byte for byte in range(0x100) if byte not in THEMSELVES)  # such as the space, which is written Ġ
BYTES = {chr(byte): byte for byte in THEMSELVES} | {chr(0x100 + place): byte for place, byte in enumerate(OTHERS)}


def in_bytes(units: Sequence[str]) -> bool:
    """Say whether units are written in bytes: a space is, or their bytes make up a text with other letters."""
    if any(unit.startswith("Ġ") for unit in units):
        return True
    letters = "".join(unit for unit in units if not (unit.startswith("<") and unit.endswith(">")))
    if not BYTES.keys() >= set(letters):
        return False
    try:
        return not _reader("strict")(_bytes(letters)).isascii()
    except UnicodeDecodeError:
        return False


def from_bytes(units: Sequence[str]) -> list[str]:
    """Read units as text; a character that is cut into several stands in the last of them.

    >>> from_bytes(["cafÃ©", "ðŁĺ", "Ģ", "<｜end｜>"])
    ['café', '', '😀', '<｜end｜>']
    """
    read = _reader("replace")
    return [read(_bytes(unit)) if BYTES.keys() >= set(unit) else unit for unit in units]


def _bytes(letters: str) -> bytes:
    return bytes(BYTES[letter] for letter in letters)


def _reader(errors: str) -> Callable[[bytes], str]:
    """Return what reads bytes as UTF-8 and waits for the rest of a character."""
    return getincrementaldecoder("utf-8")(errors).decode
