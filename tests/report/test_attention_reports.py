"""The tables of the attention studies: claims with their parts and nulls, cells with what is not defined."""

import json
from pathlib import Path

import pytest

from diffmask.report import PICTURES, TABLES
from diffmask.report.attention_tables import cell, claims_table, seeds_of

RESULTS = Path(__file__).parents[2] / "results"


def judged(verdict, *differences):
    cells = {str(number): value for number, value in enumerate(differences)}
    return {"verdict": verdict, "cells": len(cells), "for": 1, "against": 0, "differences": cells}


def test_a_claim_stands_with_its_numbers_its_parts_and_what_is_beside_it():
    parts, beside = (
        {"one": judged("holds", 0.1, 0.3)},
        {"null": judged("undecided", 0.0, None), "not run": judged("undecided")},
    )
    summary = {
        "claims": {"M9": "fails"},
        "claim_figures": {"M9": {"verdict": "fails", "parts": parts, "beside": beside}},
    }
    assert claims_table(summary, {"M9": "all is well"}).splitlines()[2:] == [
        "| M9: all is well | **fails** |  |  |  |  |",
        "| M9: – one | holds | 1 | 0 | 2 | 0.200, 0.100 to 0.300 |",
        "| M9: *beside it:* null | undecided | 1 | 0 | 2 | 0.000, 0.000 to 0.000 |",
    ]


def test_a_cell_says_on_how_many_documents_it_is_not_defined():
    row = {"mean": 0.5, "spread": 0.1, "published": 0.4, "undefined": 3, "documents": 30}
    assert cell(row) == "0.500 ± 0.100 (0.400), undefined on 3 of 30"
    assert cell(row | {"undefined": 0, "published": None}) == "0.500 ± 0.100"


def test_a_table_says_over_how_many_seeds_it_is():
    rows = [{"table": "6", "values": [1, 2]}, {"table": "1", "values": [1, 2]}, {"table": "1", "values": [1, 2, 3]}]
    assert [seeds_of(rows, table) for table in ("6", "1", "2")] == ["2 seeds", "2 to 3 seeds", "not measured"]


@pytest.mark.parametrize("name", ["sparse_attention", "staying_true"])
def test_every_table_of_the_committed_results_has_whole_lines(name):
    result = json.loads((RESULTS / f"{name}.json").read_text())
    tables = [part for part in TABLES.get(result["study"])(result).split("\n\n") if part.startswith("|")]
    assert len(tables) >= 8
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in tables)
    assert all(figure.get_axes() for figure in PICTURES.get(result["study"])(result).values())
    assert set(result["summary"]["claims"].values()) <= {"holds", "fails", "undecided"}


def test_the_realised_support_stands_beside_every_sparsity():
    result = json.loads((RESULTS / "sparse_attention.json").read_text())
    text = TABLES.get("sparse-attention")(result)
    projections = {job["projection"] for job in result["jobs"]}
    assert len(projections) >= 7
    for projection in projections:
        assert f"| bilstm | {projection} | words with weight | " in text
