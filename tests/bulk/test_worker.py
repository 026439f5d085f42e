"""What else than single texts can stand in a row: images by their path, and pairs."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from pyarrow import parquet

import diffmask
from diffmask.bulk.run import BulkConfig, explain_file
from saved_models import TEXTS, short
from tiny_text import SIZES, make_tokenizer
from tiny_vision import build


@pytest.fixture
def vision(tmp_path):
    model = diffmask.adapt(build("ViTForImageClassification"))
    pixels = torch.rand(6, 3, 12, 20, generator=torch.Generator().manual_seed(0))
    processor = diffmask.PlainProcessor((12, 20))
    task = diffmask.ImageClassification(processor, list(pixels), list(pixels), patch=model.patch)
    return diffmask.fit(model, task, short())


def test_images_are_read_by_their_path_beside_the_table(vision, tmp_path):
    for number in range(2):
        Image.fromarray(np.full((12, 20, 3), 90 * number, np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "pictures.csv").write_text('image\n0.png\n1.png\nmissing.png\n""\n')
    tally = explain_file(vision, tmp_path / "pictures.csv", tmp_path / "out")
    rows = parquet.read_table(tmp_path / "out").to_pylist()
    assert tally.rows == 4 and tally.errors == 2 and [row["text"] for row in rows][:2] == ["0.png", "1.png"]
    assert "there is no picture" in rows[2]["error"] and rows[3]["error"].startswith("no image")
    assert len(rows[1]["kept"]) == len(rows[1]["units"]) == len(rows[1]["scores"][0])


def test_pairs_and_values_have_their_columns(tmp_path):
    import transformers

    torch.manual_seed(0)
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES, num_labels=1)).eval()
    tokenizer, pairs = make_tokenizer(), [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2])]
    fitted = diffmask.fit(diffmask.adapt(bert), diffmask.TextRegression(tokenizer, pairs, pairs), short())
    rows = [{"a": one, "b": two} for one, two in pairs] + [{"a": "a movie", "b": ""}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    explain_file(fitted, tmp_path / "x.jsonl", tmp_path / "out", BulkConfig(text_column="a", pair_column="b"))
    found = parquet.read_table(tmp_path / "out").to_pylist()
    assert [json.loads(row["text"]) for row in found[:2]] == [list(pair) for pair in pairs]
    assert found[0]["same_prediction"] is None and found[0]["divergence"] is not None
    assert list(json.loads(found[0]["original"])) == ["value"]
    assert "is empty" in found[2]["error"]
