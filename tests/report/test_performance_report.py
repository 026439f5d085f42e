from diffmask.report import TABLES


def test_every_bar_has_a_line_and_what_was_not_measured_says_so():
    summary = {
        "explain_over_forward_cpu": 1.0765,
        "explain_over_forward_gpu": None,
        "memory_over_finetune": 0.51,
        "memory_over_finetune_gpu": 0.623,
        "fit_speedup": 14,
    }
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
        {
            "part": "growth",
            "model": "MiniLM",
            "device": "cpu",
            "measure": "slope over units",
            "ratio": 0.94,
            "forward": 0.96,
        },
    ]
    table = TABLES.get("performance")({"summary": summary, "rows": rows})
    assert "| explain at all depths, unverified ÷ forward, CPU | 1.08 | ≤ 1.15 |" in table
    assert "| the same on a GPU, bfloat16, recorded | not measured | ≤ 1.25 |" in table
    assert "| memory | MiniLM | cpu | input | 0.51 | – |" in table
    assert "| peak memory of a fit step ÷ of fine-tuning, CPU | 0.51 | ≤ 0.6 |" in table
    assert "| the same on a GPU | 0.623, missed | ≤ 0.6 |" in table
    assert "| reference procedure ÷ whole fit, treebank | 14, missed | ≥ 20 |" in table
    assert "| explain grows with units, to the power of | 0.94 | the model's: 0.96 |" in table
