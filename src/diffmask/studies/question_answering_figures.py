"""What the question answering study's figures show: curves by part of the input, parts of speech, examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..tasks.parts_of_speech import Tagged, at_each, tag
from ..tasks.squad import Answered
from .probing import Certified, Probed

QUESTION, PASSAGE = 0, 1
SHOWN = 3  # examples


def prepare_tags(questions: Sequence[Answered], work: Path) -> list[tuple[Tagged, Tagged]]:
    """Return the parts of speech of each question and its passage, tagged once."""
    texts = sorted({text for q in questions for text in q.pair})
    known = dict(zip(texts, tag(texts, work / "parts-of-speech.json"), strict=True))
    return [(known[q.question], known[q.passage]) for q in questions]


def part_curves(
    probed: Probed, certified: Certified, tokenizer: Any, shown: Sequence[Answered], gold: Tensor, right: Tensor
) -> dict[str, list[float]]:
    """Return, depth by depth, the share kept of question, passage, predicted answer, and gold answer where missed."""
    kept = defaultdict[str, list[Tensor]](list)
    for row, asked in enumerate(shown):
        said = probed.probability[row]
        parts = torch.tensor([-1 if part is None else part for part in tokenizer(*asked.pair).sequence_ids(0)])
        kept["question_kept"].append(said[:, parts == QUESTION].mean(1))
        kept["passage_kept"].append(said[:, parts == PASSAGE].mean(1))
        kept["passage_masked"].append((said[:, parts == PASSAGE] <= 0.5).float().mean(1))
        kept["certified_passage_masked"].append(1 - certified.kept[row][:, parts == PASSAGE].float().mean(1))
        start, end = sorted((int(probed.original["start"][row]), int(probed.original["end"][row])))
        kept["predicted_answer_kept"].append(said[:, start : end + 1].mean(1))
        if not right[row]:
            kept["missed_answer_kept"].append(said[:, int(gold[row, 0]) : int(gold[row, 1]) + 1].mean(1))
    return {part: torch.stack(values).mean(0).tolist() for part, values in kept.items()}


def kept_by_part(
    probed: Probed, tokenizer: Any, shown: Sequence[Answered], tags: Sequence[tuple[Tagged, Tagged]]
) -> dict[str, dict[str, float]]:
    """Return at how many depths a token is kept in the mean, by its part of speech, in questions and in passages."""
    sums = {name: defaultdict[str, list[float]](list) for name in ("question", "passage")}
    for row, asked in enumerate(shown):
        encoded = tokenizer(*asked.pair, return_offsets_mapping=True)
        layers, tokens = probed.probability[row].sum(0).tolist(), encoded.tokens(0)
        for part, name in ((QUESTION, "question"), (PASSAGE, "passage")):
            here = [i for i, found in enumerate(encoded.sequence_ids(0)) if found == part]
            names = at_each([encoded["offset_mapping"][i] for i in here], tags[row][part])
            for i, speech in zip(here, names, strict=True):
                sums[name][speech or "between words"].append(layers[i])
        for i, found in enumerate(encoded.sequence_ids(0)):
            if found is None:
                sums["passage"][tokens[i]].append(layers[i])
    return {part: {n: sum(v) / len(v) for n, v in groups.items() if len(v) > 9} for part, groups in sums.items()}


def examples(probed: Probed, tokenizer: Any, shown: Sequence[Answered], gold: Tensor) -> list[dict[str, Any]]:
    """Return short examples with the probability that each token is kept at each depth."""
    counts = [found.shape[1] for found in probed.probability]
    shortest = sorted(range(len(shown)), key=counts.__getitem__)[: SHOWN * 4 : 4]
    return [
        {
            "tokens": tokenizer(*shown[row].pair).tokens(0),
            "keep": [[round(value, 3) for value in depth] for depth in probed.probability[row].tolist()],
            "predicted": [int(probed.original[name][row]) for name in ("start", "end")],
            "gold": gold[row].tolist(),
        }
        for row in shortest
    ]
