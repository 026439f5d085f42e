"""The masks that nobody has to learn: a question, and the answer that is predicted."""

import pytest
import torch

from diffmask.studies.answer_alone import keep_answer, passage
from diffmask.types import Batch, Categorical
from tiny_text import make_tokenizer

#        [CLS] q  q [SEP] p  p  p  p  p  p [SEP]
IDS = [[1, 12, 13, 2, 4, 5, 6, 7, 8, 9, 2]]
SECOND = [[0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]]


def asked(start, end):
    inputs = {"input_ids": torch.tensor(IDS), "token_type_ids": torch.tensor(SECOND)}
    batch = Batch(inputs, torch.ones(1, 11, dtype=torch.bool))
    heads = {name: Categorical(torch.eye(11)[[place]]) for name, place in (("start", start), ("end", end))}
    return batch, heads


@pytest.mark.parametrize(
    ("start", "end", "side", "kept"),
    [
        (6, 7, None, []),
        (6, 7, 0, [6, 7]),
        (6, 7, 1, [5, 6, 7, 8]),
        (7, 6, 0, [6, 7]),  # an end before the start
        (4, 4, 3, [4, 5, 6, 7]),
    ],
)
def test_of_the_passage_just_the_answer_and_what_is_beside_it_is_kept(start, end, side, kept):
    batch, said = asked(start, end)
    part = passage(batch, make_tokenizer())
    assert part[0].nonzero().flatten().tolist() == list(range(4, 10))
    assert keep_answer(batch, said, part, side)[0].nonzero().flatten().tolist() == [0, 1, 2, 3, *kept, 10]
