"""What byte-level tokenizers write is shown as text."""

import pytest
from tokenizers import pre_tokenizers

from diffmask.report.byte_level import from_bytes
from diffmask.report.plain import pieces


@pytest.mark.parametrize(
    ("units", "shown"),
    [
        (["Ġun", "ĠcafÃ©", "ðŁĺĢ", "Ċ"], ["un", "café", "😀", "␣"]),
        (["<s>", "ä½łå¥½", "ä½", "ł", "ä½"], ["<s>", "你好", "␣", "你", "␣"]),  # no space to know it by, and cut short
        (["Ġa", "Ã", "Ġb", "<｜end｜>"], ["a", "␣", "�b", "<｜end｜>"]),
        (["café", "crème", "ä½ł 好"], ["café", "crème", "ä½ł 好"]),
        (["caf", "##é"], ["caf", "é"]),
        (["un", "café"], ["un", "café"]),
        ([], []),
        (["▁café", "é"], ["café", "é"]),
        (["a", "Ab", "~"], ["a", "Ab", "~"]),
    ],
)
def test_units_written_in_bytes_are_shown_as_text_and_others_as_they_are(units, shown):
    assert [piece.text for piece in pieces(units)] == shown


def test_every_byte_is_read_as_its_tokenizers_write_it():
    letters = {*map(chr, range(0x80, 0x800)), *map(chr, range(0x21, 0x7F)), "\n", "\t", "\xa0", "\xad"}
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for letter in letters:
        ((written, _),) = cut.pre_tokenize_str(letter)
        assert from_bytes([written]) == [letter]
