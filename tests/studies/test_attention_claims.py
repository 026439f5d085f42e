"""The claims of both attention papers, on figures made up so that they hold or not."""

import math

import pytest

from diffmask.attention.importance import CUTS
from diffmask.studies.claims import judge, judge_all, vote
from diffmask.studies.sparse_attention_claims import above_ties, claims, tie_null
from diffmask.studies.sparse_attention_published import KINDS
from diffmask.studies.staying_true_claims import claims as staying_claims


@pytest.mark.parametrize(
    ("differences", "expected"),
    [([0.1, 0.12, 0.11], 1), ([-0.1, -0.12], -1), ([0.1, -0.1, 0.05], 0), ([0.4], 0), ([0.2, math.nan], 0)],
)
def test_a_cell_votes_by_two_standard_errors(differences, expected):
    assert vote(differences) == expected


def test_a_claim_holds_fails_or_is_undecided():
    up, down, level = [0.1, 0.1], [-0.1, -0.1], [0.1, -0.1]
    assert judge({"a": up, "b": up, "c": up, "d": level})["verdict"] == "holds"
    assert judge({"a": down, "b": level})["verdict"] == "fails"
    assert judge({"a": up, "b": level, "c": down})["verdict"] == "undecided"
    assert judge({})["verdict"] == "undecided"
    for few in ([], [-0.3], [-0.3, math.nan]):
        assert judge({"a": up, "b": few})["verdict"] == "holds" and judge({"a": up, "b": few})["cells"] == 1


def test_as_much_is_enough_where_a_claim_says_so():
    level, down = [0.1, -0.1], [-0.1, -0.1]
    assert judge({"a": level})["verdict"] == "undecided" and judge({"a": level}, or_equal=True)["verdict"] == "holds"
    assert judge({"a": down}, or_equal=True)["verdict"] == "fails"
    assert judge({"a": [0.1]}, or_equal=True)["verdict"] == "undecided"


def test_a_claim_of_several_parts_holds_if_all_do_and_fails_if_one_does():
    yes, no, open_ = (judge({"a": values}) for values in ([0.1, 0.1], [-0.1, -0.1], [0.1, -0.1]))
    verdicts = [
        judge_all(dict(zip("abc", parts, strict=False)))["verdict"]
        for parts in ((yes, yes), (yes, no, open_), (yes, open_))
    ]
    assert verdicts == ["holds", "fails", "undecided"]


def made_up(seed, sparsity, tau=0.3, entropy=0.5, share=1.0, states=0.9):
    """Make the figures of a job; importance of inputs agrees by `tau`, of hidden states by `states`."""
    agreement = {
        kind: {name: {"mean": (states if "states" in kind else tau) + seed / 1000} for name in ("every", "support")}
        | {"null": {"mean": 0.5}}
        for kind in KINDS
    }
    projection = {None: "softmax", 0.0: "sparsemax"}.get(sparsity, "sparsegen")
    return {
        **{"dataset": "imdb", "encoder": "bilstm", "projection": projection, "sparsity": sparsity, "seed": seed},
        **{"agreement": agreement, "entropy": {KINDS[0]: {"mean": entropy}}, "support_share": share},
        "state_entropy": {"mean": 0.8 + seed / 1000},
        "truncated": {kind: [{"mean": 0.4 * cut} for cut in CUTS] for kind in KINDS[:2]},
        "adversaries": {
            "frozen": {"change": -0.1 - seed / 1000, "divergence": 0.6},
            "unfrozen": {"change": 0.0, "divergence": 0.65},
        },
    }


def test_the_claims_about_sparse_attention_hold_where_the_figures_say_so():
    jobs = [made_up(seed, None) for seed in range(3)]
    for seed in range(3):
        jobs += [made_up(seed, x, 0.3 - x / 10, 0.5 - x / 10, 0.5) for x in (-1.0, 0.0, 0.5, 0.9)]
    found = claims(jobs)
    assert {name: one["verdict"] for name, one in found.items()} == dict.fromkeys(
        ("M1", "M2", "M3", "M4", "M5"), "holds"
    )
    diverges = found["M5"]["beside"]["an unfrozen one diverges more"]["differences"]
    assert diverges == dict.fromkeys(("imdb bilstm softmax", "imdb bilstm sparsemax"), pytest.approx(0.05))
    assert found["M4"]["above_ties"]["imdb bilstm"]["0"] == pytest.approx(0.3 + 0.001 - 0.2)


def test_the_claims_about_sparse_attention_fail_where_the_figures_say_so():
    jobs = [made_up(seed, None, states=0.1) for seed in range(3)]
    for seed in range(3):
        jobs += [made_up(seed, x, 0.3 + x / 10, 0.5 + x / 10, 0.5, 0.1) for x in (-1.0, 0.0, 0.5, 0.9)]
    found = claims(jobs)
    assert all(found[name]["verdict"] == "fails" for name in ("M1", "M3", "M4"))
    assert found["M1"]["beside"]["sparsemax, agreement with hidden states above that of shared zeros"]["for"] == 0


def test_a_fall_that_ties_alone_would_give_is_none_beyond_them():
    jobs = [made_up(seed, None) for seed in range(3)]
    curve = [(-1.0, 0.9, 0.02), (0.0, 0.6, 0.04), (0.5, 0.3, 0.01), (0.9, 0.1, 0.03)]  # what exceeds ties has no trend
    for seed in range(3):
        jobs += [made_up(seed, x, 0.4 * share + more, 0.5, share) for x, share, more in curve]
    found = claims(jobs)["M4"]
    assert found["verdict"] == "holds"
    below = [made_up(seed, 0.95, 0.0, 0.5, 0.001) for seed in range(3)]  # its null was not measured: it has no say
    assert claims(jobs + below)["M4"]["beside"] == found["beside"]
    assert found["beside"]["less what softmax attention cut to as many words would give"]["verdict"] == "undecided"


def test_an_entropy_that_falls_less_than_published_has_the_sign_and_not_the_size():
    jobs = [made_up(seed, None) for seed in range(3)]
    for seed in range(3):
        jobs += [made_up(seed, x, 0.3, e) for x, e in ((-1.0, 0.5), (0.0, 0.4), (0.5, 0.45), (0.9, 0.3))]
    sign, size = claims(jobs)["M3"]["parts"].values()
    assert (sign["verdict"], size["verdict"]) == ("holds", "fails")


def test_an_unfrozen_adversary_that_loses_more_than_theirs_did_is_seen():
    jobs = [made_up(seed, sparsity) for seed in range(3) for sparsity in (None, 0.0)]
    for job in jobs:
        job["adversaries"]["unfrozen"]["change"] = -0.05 - job["seed"] / 1000
    assert [part["verdict"] for part in claims(jobs)["M5"]["parts"].values()] == ["holds", "fails"]


def test_what_was_defined_nowhere_has_no_vote():
    jobs = [made_up(seed, sparsity) for seed in range(3) for sparsity in (None, 0.0)]
    for job in jobs[1::2]:
        job["agreement"][KINDS[2]]["support"]["mean"] = None  # as a result file writes NaN
    alone = claims(jobs)["M1"]["beside"]["sparsemax, on the words with weight alone"]
    assert alone["cells"] == 1


def test_what_ties_alone_give_is_read_off_between_the_measured_shares():
    dense = made_up(0, None)
    for share in (1.0, 0.6, 0.15, 0.02):
        assert tie_null(dense, share) == pytest.approx(0.4 * share)
    assert tie_null(dense, 0.0195) == pytest.approx(0.4 * min(CUTS))  # as good as measured
    assert math.isnan(tie_null(dense, 0.01))  # fewer words than were cut to
    assert above_ties([dense]) == {}


def job_of(variant, seed, drop, chance, kept, alignment="additive", layers=1, entropy=0.5):
    return {
        **{"dataset": "sst", "variant": variant, "alignment": alignment, "layers": layers, "seed": seed, "f1": 0.8},
        **{kind: {"f1": drop + seed / 1000, "accuracy": drop} for kind in ("uniform", "permuted")},
        "word_probability": {"macro": chance},
        "attention_entropy": {"mean": entropy},
        "information": {
            words: {"plain": kept + seed / 1000, "corrected": kept + seed / 1000} for words in ("frequent", "sampled")
        },
    }


def test_the_claims_about_staying_true_compare_classifiers_of_the_same_seed():
    jobs = []
    for seed in range(3):
        for alignment in ("additive", "dot"):
            jobs += [
                job_of("base", seed, 0.05, 0.7, 1.0, alignment),
                job_of("mlm", seed, 0.2, 0.6, 2.0, alignment),
                job_of("tying", seed, 0.3, 0.5, 3.0, alignment),
                job_of("residual", seed, 0.1, 0.6, 4.0, alignment),
            ]
        jobs += [
            job_of("base", seed, 0.01, 0.7, 1.0, layers=3),
            job_of("default query", seed, 0, 0, 0, "dot", 1, 0.999),
        ]
    found = staying_claims(jobs, ["sst"])
    assert {name: one["verdict"] for name, one in found.items()} == dict.fromkeys(
        ("T1", "T2", "T3", "T4", "T5"), "holds"
    )
    assert found["T1"]["parts"]["F1 itself is at most 0.03 lower"]["differences"]["sst dot mlm"] == pytest.approx(0.03)


def test_the_order_of_mutual_information_fails_by_one_link():
    jobs = []
    for seed in range(3):
        kept = {"base": 1.0, "mlm": 2.0, "tying": 4.0, "residual": 3.0}
        jobs += [job_of(variant, seed, 0.1, 0.5, much) for variant, much in kept.items()]
    found = staying_claims(jobs, ["sst"])["T2"]
    assert found["verdict"] == "fails"
    assert [part["verdict"] for part in found["parts"].values()] == ["fails", "holds", "holds"]


def test_a_query_from_a_normal_must_leave_the_uniform():
    jobs = []
    for seed in range(3):
        jobs.append(job_of("default query", seed, 0, 0, 0, "dot", 1, 0.999))
        jobs.append(job_of("base", seed, 0.1, 0.5, 1.0, "dot", 1, 0.995))
    found = staying_claims(jobs, ["sst"])["T5"]
    assert [part["verdict"] for part in found["parts"].values()] == ["holds", "fails"]
    assert found["beside"]["drawn from N(0, 1), entropy is lower"]["verdict"] == "holds"


def test_a_figure_of_a_result_file_that_is_null_is_not_compared():
    jobs = [job_of(variant, seed, 0.1, 0.5, 1.0) for variant in ("base", "mlm") for seed in range(3)]
    jobs[0]["word_probability"]["macro"] = None
    assert staying_claims(jobs, ["sst"])["T3"]["differences"]["sst additive mlm"] == 0
