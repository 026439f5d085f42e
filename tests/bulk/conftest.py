import json

import pytest

from diffmask.explaining.embedded import load_embedded

WORDS = ["good", "bad", "dull", "funny", "fast", "not", "really", "a", "film"]


@pytest.fixture(scope="session")
def embedded():
    return load_embedded()


@pytest.fixture
def source(tmp_path):
    """Write a table of forty texts, two of which cannot be explained."""
    texts = [" ".join(WORDS[(i * k) % 9] for k in range(1, 3 + i % 6)) for i in range(40)]
    texts[3], texts[17] = None, "  "
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(json.dumps({"key": f"k{i}", "text": text}) for i, text in enumerate(texts)))
    return path
