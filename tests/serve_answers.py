"""Whether an answer that came over the wire is the one made offline."""

from typing import Any

import pytest

SAME = ("units", "depths", "depth", "scores", "kept", "prediction", "verification", "certified", "kind", "fingerprint")


def same(found: dict[str, Any], offline: dict[str, Any]) -> None:
    """Compare all that is said: words and kept sets exactly, numbers up to what batch mates change in a float."""
    for name in SAME:
        if name == "scores":
            for row, expected in zip(found["scores"], offline["scores"], strict=True):
                assert row == pytest.approx(expected, abs=1e-5)
        elif name == "verification" and offline[name] is not None:
            divergences = found[name]["divergence"], offline[name]["divergence"]
            assert divergences[0] == pytest.approx(divergences[1], abs=1e-5)
            assert {**found[name], "divergence": 0} == {**offline[name], "divergence": 0}
        else:
            assert found[name] == offline[name], name
