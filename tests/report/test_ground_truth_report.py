from diffmask.report import PICTURES, TABLES
from diffmask.report.ground_truth import table

GRADED = {"probe": (0.95, 0.05), "gradient": (0.99, 0.01), "uniform": (0.3, 0.0)}


def columns(scores):
    return {method: {"mean": mean, "spread": spread, "seeds": 2} for method, (mean, spread) in scores.items()}


def first(name, score, tied=(), place=1):
    return {"first": name, "score": score, "tied": list(tied), "probe_place": place}


def result(**changes):
    summary = {
        "table": {"or": columns(GRADED), "xor": columns({"probe": (0.5, 0.0), "uniform": (0.6, 0.0)})},
        "first_by_task": {"or": first("gradient", 0.99, ["probe"], 2), "xor": first("uniform", 0.6, place=2)},
        "first_by_task_sets": {"or": first("probe", 1.0, ["a", "b", "c", "d"])},
        "probe_not_first": ["xor"],
        "knowable_units_right": {"two-hop, input": 0.999},
        "refused_models": 1,
    }
    return {"summary": {**summary, **changes}, "seeds": [0, 1]}


def test_a_table_has_a_line_per_method_with_its_spread_and_the_best_in_bold():
    shown = table(result())
    assert "| method | or | xor |" in shown
    assert "| **DiffMask** | 0.950 ± 0.050 | 0.500 |" in shown
    assert "| gradient | **0.990 ± 0.010** | – |" in shown
    assert "mean over 2 seeds" in shown


def test_it_names_the_first_those_tied_and_where_the_probe_comes():
    shown = table(result())
    assert "| or | gradient, **DiffMask** (0.990) | 0.950 | 2 (tied) | " in shown
    assert "| **DiffMask**, a, b, c and 1 more (1.000) | 1 |" in shown
    assert "| xor | uniform (0.600) | 0.500 | 2 | – | – |" in shown


def test_it_says_where_the_probe_is_behind_and_what_was_refused():
    shown = table(result())
    assert "DiffMask is not among the first at: xor." in shown
    assert "what can be known there: two-hop, input 99.9%." in shown
    assert "do not use their shortcut: 1." in shown
    assert "among the first at every task" in table(result(probe_not_first=[], refused_models=0))


def test_the_study_has_a_table_and_no_pictures():
    assert TABLES.get("ground-truth") is table
    assert PICTURES.get("ground-truth")(result()) == {}
