from diffmask.report import TABLES


def test_every_bar_has_a_line_and_what_was_not_measured_says_so():
    summary = {"explain_over_forward_cpu": 1.0765, "explain_over_forward_gpu": None}
    rows = [
        {
            "part": "explain",
            "model": "MiniLM",
            "device": "cpu",
            "measure": "explain",
            "ratio": 1.08,
            "low": 1,
            "high": 1.1,
        },
        {"part": "memory", "model": "MiniLM", "device": "cpu", "measure": "input", "ratio": 0.51},
    ]
    table = TABLES.get("performance")({"summary": summary, "rows": rows})
    assert "| explain at all depths, unverified ÷ forward, CPU | 1.08 | ≤ 1.15 |" in table
    assert "| the same on a GPU, bfloat16, recorded | not measured | ≤ 1.25 |" in table
    assert "| memory | MiniLM | cpu | input | 0.51 | – |" in table
