"""The page that others read of a saved probe: what it explains, how well, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MARK = "library_name: diffmask"

PAGE = """---
{mark}
{base_line}tags:
- diffmask
- interpretability
- attribution
---

# A diffmask probe for {model}

This probe reads the hidden states of `{model}` and says, at every depth, which units of an input its prediction can do
without; it was fitted for the task `{task}` with a margin of {margin:g} ({divergence}). It holds no part of the model,
a `{architecture}`, and belongs to the weights with the fingerprint `{fingerprint}`, which is checked on loading.

```python
import diffmask

explainer = diffmask.Explainer(diffmask.from_pretrained("{place}"))
explanation = explainer(examples)[0]
```

| depth | site | kept | divergence | same prediction | holds the margin |
|--:|:--|--:|--:|--:|:--|
{rows}

Measured on validation examples, without noise; kept is the share of units, divergence is in nats. An explanation says
what the prediction was measured to need; it does not say that the model is right, nor what its author meant.
"""


def card(record: Mapping[str, Any]) -> str:
    """Write the page of a record."""
    base, settings = record["base"], record["settings"]
    named = base["model"] is not None and not base["local"]
    return PAGE.format(
        mark=MARK,
        base_line=f"base_model: {base['model']}\n" if named else "",
        model=(base["model"] if named else None) or base["architecture"],
        architecture=base["architecture"],
        task="custom" if record["task"] is None else record["task"]["kind"],
        margin=settings["objective"]["margin"],
        divergence=settings["objective"]["divergence"],
        fingerprint=base["fingerprint"],
        place="DIRECTORY OR NAME ON THE HUB",
        rows="\n".join(_row(score, decides(record)) for score in record["scores"]),
    )


def decides(record: Mapping[str, Any]) -> bool:
    """Say whether the model decides anything; one that predicts values does not, and always decides alike."""
    return record["task"] is None or record["task"]["kind"] != "regression"


def _row(score: Mapping[str, Any], decided: bool) -> str:
    holds, same = "yes" if score["feasible"] else "no", f"{score['agreement']:.1%}" if decided else "–"
    return (
        f"| {score['depth']} | `{score['site']}` | {score['kept']:.3f} | {score['divergence']:.4f} | {same} | {holds} |"
    )


def is_ours(page: str) -> bool:
    """Say whether a page was written here, so that one written by a person is never replaced."""
    return MARK in page.split("\n---", 1)[0]
