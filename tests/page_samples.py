"""Explanations for the tests of pages, made by hand: what stands in them is known."""

import io
from typing import Any

import torch
from PIL import Image

from diffmask.explanation import Explanation, Verification

HOSTILE = (
    "<script>window.broken = 1</script>",
    "</script><img src=x onerror='window.broken = 1'>",
    "\u202eright to left override\u202c and שלום עולם",
    "👩\u200d🚀 flies 🏳️\u200d🌈",
    "line\u2028separator & <b>bold</b> \x00 \x1b[31m",
    "{{ 7 * 7 }} ${7 * 7} `7`",
    "word " * 2000,
)

COMPARISON = {
    "setting": {"examples": 2, "site": "<b>site</b>", "removal": "baseline", "seed": 0},
    "rows": [
        {"method": name, "metric": "srg", "better": "higher", "mean": mean, "low": 0.1, "high": 0.9, "count": 2}
        | {"undefined": 0}
        for name, mean in (("probe", 0.5), ("<i>random</i>", 0.2))
    ],
    "first": {"srg": ["probe"]},
    "costs": {},
    "failures": [],
}


def explained(text: str = "A fast , funny movie", divergence: float = 0.05, **changes: Any) -> Explanation:
    """Explain a text at three depths: the deeper, the fewer units are kept; the first is kept to the end."""
    units = tuple(text.split(" ")) if text.strip() else ("␣",)
    chances = torch.rand(3, len(units), generator=torch.Generator().manual_seed(len(text))) * 0.4
    chances[0, ::2], chances[1, ::3], chances[:, 0] = 0.8, 0.9, 0.95
    settings: dict[str, Any] = {
        "units": units,
        "depths": ("net.embed", "net.block.0", "net.block.1"),
        "scores": chances.log(),
        "depth": 2,
        "kept": chances[2] > 0.5,
        "verification": Verification(divergence, 0.1, "kl", {"label": 1}, {"label": int(divergence < 0.3)}),
        "info": {"labels": ["negative", "positive"], "kind": "input", "margin": 0.1, "versions": {"torch": "2.13.0"}},
    }
    return Explanation(**{**settings, **changes})


def explained_image(rows: int = 2, columns: int = 3) -> Explanation:
    """Explain an image of a few patches, of which the first is kept."""
    chances = torch.full((2, rows * columns), 0.25)
    chances[:, 0] = 0.75
    return Explanation(
        units=tuple(f"{patch // columns},{patch % columns}" for patch in range(rows * columns)),
        depths=("vit.layers.0", "vit.layers.1"),
        scores=chances.log(),
        depth=1,
        kept=chances[1] > 0.5,
        verification=Verification(0.02, 0.1, "kl", {"label": 0}, {"label": 0}),
        info={"labels": ["cat", "dog"], "grid": [rows, columns]},
    )


def picture(width: int = 48, height: int = 32) -> Image.Image:
    """Draw an image whose two halves differ."""
    made = Image.new("RGB", (width, height), (200, 40, 40))
    made.paste((30, 90, 200), (width // 2, 0, width, height))
    return made


def picture_bytes() -> bytes:
    out = io.BytesIO()
    picture().save(out, "PNG")
    return out.getvalue()
