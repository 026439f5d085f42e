"""Comparisons as tables: every form holds the same figures, and who is first is marked."""

import csv
import io

from rich.console import Console

from diffmask.report.methods import as_csv, grid, latex, markdown, notes, table


def row(method, metric, mean, better="higher", count=5, undefined=0):
    found = {"method": method, "metric": metric, "better": better, "mean": mean, "low": mean, "high": mean}
    return {**found, "count": count, "undefined": undefined}


RECORD = {
    "setting": {"examples": 5, "site": "embedding", "depth": 1, "removal": "zero", "seed": 0},
    "rows": [
        row("probe", "srg", 0.5),
        row("probe", "truth_kl", float("nan"), "lower", 0, 5),
        row("random", "srg", -0.25),
        row("random", "truth_kl", float("inf"), "lower"),
    ],
    "first": {"srg": ["probe"], "truth_kl": []},
    "costs": {"probe": {"forwards": 1.29, "seconds": 1.0, "plain_seconds": 1.0, "time_ratio": 1.0}},
    "failures": [
        {"method": "random", "metric": None, "example": 3, "reason": "ValueError: no"},
        {"method": "random", "metric": None, "example": 4, "reason": "ValueError: no"},
    ],
}


def test_every_method_has_a_cell_for_every_metric_and_its_cost():
    head, probe, random = grid(RECORD)
    assert head == ["method", "srg ↑", "truth_kl ↓", "forwards", "time"]
    assert probe == ["probe", "0.500* [0.500, 0.500]", "–", "1.29", "1×"]
    assert random == ["random", "-0.250 [-0.250, -0.250]", "∞ [∞, ∞]", "–", "–"]


def test_markdown_has_as_many_cells_in_every_row():
    lines = markdown(RECORD).splitlines()
    assert len({line.count("|") for line in lines}) == 1 and len(lines) == 4


def test_latex_is_bold_where_a_method_is_first_and_escapes_names():
    text = latex(RECORD)
    assert r"\textbf{0.500 [0.500, 0.500]}" in text and r"truth\_kl $\downarrow$" in text
    assert text.startswith(r"\begin{tabular}{lrrrr}") and text.endswith(r"\end{tabular}")


def test_csv_has_a_line_for_each_method_and_metric():
    lines = list(csv.DictReader(io.StringIO(as_csv(RECORD))))
    assert [(line["method"], line["metric"]) for line in lines][:2] == [("probe", "srg"), ("probe", "truth_kl")]
    assert lines[0]["forwards"] == "1.29" and lines[2]["mean"] == "-0.25"


def test_what_is_missing_is_said():
    said = " ".join(notes(RECORD))
    assert "probe, truth_kl: not defined for 5 examples." in said
    assert "random failed on 2 examples, first on number 3: ValueError: no" in said
    assert "a removed unit goes to: zero" in said


def test_a_terminal_shows_it():
    console = Console(file=io.StringIO(), width=120)
    console.print(table(RECORD))
    assert "0.500*" in console.file.getvalue()
