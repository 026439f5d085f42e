import copy
import json

import pytest

from diffmask.errors import DataError, UnknownNameError
from diffmask.report.digits import pictures, table
from diffmask.report.fill import fill, read_result

ROW = {"depth": 1, "kl": 0.01, "js": 0.002, "kept": 0.5}
RESULT = {
    "study": "digits",
    "command": "diffmask study digits",
    "seeds": [0, 1],
    "good": 0.04,
    "summary": {},
    "rows": [
        {**ROW, "method": "diffmask"},
        {**ROW, "method": "diffmask", "kl": 0.05},
        {**ROW, "method": "erasure", "kl": None},
        {"method": "uniform", "depth": 1, "kl": 0.65, "js": 0.19},
    ],
    "figures": {
        "attribution": {
            "query": [8, 1],
            "units": ["8", "3"],
            "scores": {"diffmask": [1, 0], "diffmask, depth 0": [0.5, 0.5]},
        },
        "clusters": {
            "states": [[0, 0], [1, 1], [2, 2]],
            "roles": [0, 1, 2],
            "role_names": ["a", "b", "c"],
            "keep": [1, 1, 0],
            "baseline": [2, 2],
        },
    },
}


def test_the_table_shows_median_worst_and_count_of_good_seeds():
    assert "| **DiffMask, ours** | 0.0300 (0.0500) | 0.0020 (0.0020) | 1 of 2 | 0.500 | – |" in table(RESULT)


def test_an_infinite_divergence_is_shown_as_such():
    assert "| exact erasure, searched | ∞ |" in table(RESULT)


def test_both_pictures_are_drawn(tmp_path):
    for name, figure in pictures(copy.deepcopy(RESULT)).items():
        figure.savefig(tmp_path / f"{name}.png")
    assert {path.stem for path in tmp_path.iterdir()} == {"attribution", "clusters"}


def test_filling_twice_changes_nothing_more(tmp_path):
    (tmp_path / "digits.json").write_text(json.dumps(RESULT))
    text = "before\n<!-- table: digits.json -->\nold\n<!-- end -->\nafter\n"
    filled = fill(text, tmp_path)
    assert (
        "old" not in filled
        and "DiffMask, ours" in filled
        and filled.startswith("before")
        and filled.endswith("after\n")
    )
    assert fill(filled, tmp_path) == filled


@pytest.mark.parametrize(
    "content, complaint", [(None, "no result file"), ("{", "not a result file"), ("[]", "has no 'study'")]
)
def test_a_file_that_is_no_result_is_refused(tmp_path, content, complaint):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=complaint):
        read_result(path)


def test_a_study_without_a_table_is_refused(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({**RESULT, "study": "digit"}))
    with pytest.raises(UnknownNameError, match="did you mean 'digits'"):
        fill("<!-- table: x.json -->\n<!-- end -->", tmp_path)


def test_a_table_that_never_ends_is_refused(tmp_path):
    with pytest.raises(DataError, match="1 tables begin and 0 of them end"):
        fill("<!-- table: x.json -->\n", tmp_path)
