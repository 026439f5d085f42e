import pytest

from diffmask.errors import DataError
from diffmask.tasks.sst import binary, binary_examples, binary_sentences, parse_tree, read_sst

TREES = r"""(3 (2 A) (4 (3 gem) (2 .)))
(1 (2 -LRB-) (1 (0 Bad) (2 (2 writer\/director) (2 -RRB-))))
(2 Fine)
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "train.txt").write_text(TREES, encoding="utf-8")
    return tmp_path


def test_a_tree_gives_words_their_labels_and_every_phrase(directory):
    first = read_sst(directory, "train")[0]
    assert first.words == ("A", "gem", ".")
    assert first.word_labels == (2, 3, 2)
    assert first.label == 3
    assert set(first.phrases) == {("A", 2), ("gem", 3), (".", 2), ("gem .", 4), ("A gem .", 3)}


def test_the_last_phrase_is_the_sentence(directory):
    assert all(sentence.phrases[-1] == (sentence.text, sentence.label) for sentence in read_sst(directory, "train"))


def test_brackets_are_restored_and_backslashes_removed(directory):
    assert read_sst(directory, "train")[1].text == "( Bad writer/director )"


def test_binary_sentences_leave_the_neutral_out(directory):
    assert binary_sentences(read_sst(directory, "train")) == [("A gem .", 1), ("( Bad writer/director )", 0)]


def test_binary_labels_join_the_weak_with_the_strong():
    assert binary_examples(zip("abcde", range(5), strict=True)) == [("a", 0), ("b", 0), ("d", 1), ("e", 1)]
    with pytest.raises(DataError, match="neither positive nor negative"):
        binary(2)


def test_a_missing_file_says_what_the_directory_must_hold(tmp_path):
    with pytest.raises(
        DataError, match=r"no file .*dev\.txt: .*train\.txt, dev\.txt and test\.txt with --data or DIFF"
    ):
        read_sst(tmp_path / "nowhere", "dev")


def test_an_unknown_split_is_named(directory):
    with pytest.raises(DataError, match=r"no split named 'valid' .* Known: train, dev, test"):
        read_sst(directory, "valid")


def test_a_malformed_line_is_named_by_its_number(directory):
    (directory / "dev.txt").write_text("(3 (2 a) (4 gem))\n\n(3 (2 a)\n")
    with pytest.raises(DataError, match=r"dev\.txt, line 3: parentheses left open: 1; the line may be cut off"):
        read_sst(directory, "dev")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(7 gem)", "a label from 0 to 4, got '7'"),
        ("(", "a label from 0 to 4, got 'nothing'"),
        ("a gem", "begins with a parenthesis, .* got 'a'"),
        ("(3 gem) (2 .)", r"'\(' comes after the end of the tree"),
        ("(3 (2 a) (2))", "a node of the tree has no word"),
        ("", "there is no whole tree"),
    ],
)
def test_a_line_that_is_no_tree_says_why(line, message):
    with pytest.raises(DataError, match=message):
        parse_tree(line)
