from matplotlib.colors import to_hex

from diffmask.report import PICTURES, TABLES
from diffmask.report.patch_counting import table


def row(method, start=None, **figures):
    return {"method": method, "start": start, "auroc_free": 1.0, **figures}


RESULT = {
    "seeds": [0, 1],
    "rows": [
        row("rollout", auroc=0.6, exact=0.5),
        row("rollout", auroc=0.7, exact=0.4),
        row("chefer", auroc=0.9, exact=0.4),
        row("published", auroc=0.5, exact=0.0, converged=False),
        row("diffmask", 0.95, auroc=1.0, exact=1.0, converged=True, gap=0.0, feasible=1.0),
        row("diffmask", 0.95, auroc=0.99, exact=0.98, converged=True, gap=0.1, feasible=0.9),
        row("diffmask", 0.5, auroc=0.5, exact=0.0, converged=False, gap=None),
    ],
}


def test_each_recipe_has_a_line_per_start_and_the_rivals_follow_by_rank():
    head, rule, *lines = table(RESULT).splitlines()
    assert head.startswith("| 2 seeds | converged | AUROC |") and head.count("|") == rule.count("|") == 10
    assert lines[0].startswith(
        "| **DiffMask, ours**, from 95% kept | 2 of 2 | 0.995 (worst 0.990) | 1.000 | 0.990 (worst 0.980)"
    )
    assert lines[1].startswith("| **DiffMask, ours**, from 50% kept | 0 of 1 | 0.500 | 1.000 | 0.000 | – | – |")
    assert lines[2].startswith("| DiffMask, published recipe, λ ascends, from the paper's β | 0 of 1 |")
    assert [line.split(" |")[0] for line in lines[3:]] == ["| chefer", "| rollout"]


def test_a_result_from_before_masks_were_written_has_a_table_and_no_picture():
    assert TABLES.get("patch-counting") is table and PICTURES.get("patch-counting")(RESULT) == {}


def test_dropped_patches_are_white_and_methods_stand_as_in_the_table():
    keep = {"chefer": ["111111111"], "diffmask": ["100000000"]}
    shown = {"side": 3, "palette": ["#ff0000", "#00ff00"], "grids": ["011111111"], "keep": keep}
    figure = PICTURES.get("patch-counting")({**RESULT, "shown": shown})["grids"]
    faces = [[to_hex(patch.get_facecolor()) for patch in axis.patches] for axis in figure.get_axes()]
    assert faces == [["#ff0000"] + ["#00ff00"] * 8, ["#ff0000"] + ["#ffffff"] * 8, ["#ff0000"] + ["#00ff00"] * 8]
    assert [axis.texts[0].get_text() for axis in figure.get_axes()] == ["the grid", "ours", "chefer"]
