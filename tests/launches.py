"""Count what is launched: on a GPU every operator is a kernel or the work of finding that none is needed."""

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertForSequenceClassification

from diffmask.gates import fused, voter
from diffmask.models.adapting import adapt
from diffmask.tasks.tensors import TensorTask
from diffmask.types import Categorical

EXAMPLES, UNITS = 8, 6
LOOKED_AT = ("_local_scalar_dense", "nonzero", "equal", "masked_select")  # where the host waits for the device
FETCHED = ("tolist", "numpy", "cpu")  # likewise, though of a tensor on the host they launch nothing


class Launches(TorchDispatchMode):
    """Counts the operators that run inside the block, and how often the host looked at a number on the device."""

    def __init__(self):
        super().__init__()
        self.by_name, self.waits, self.patches = Counter(), 0, ExitStack()

    def __enter__(self):
        for name in FETCHED:
            self.patches.enter_context(patch.object(torch.Tensor, name, self._waiting(getattr(torch.Tensor, name))))
        return super().__enter__()

    def __exit__(self, *error):
        self.patches.close()
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        self.by_name[name] += 1
        self.waits += name in LOOKED_AT or (name == "index" and picks_by_mask(args[1]))
        return func(*args, **(kwargs or {}))

    def _waiting(self, method):
        def waited(tensor, *args, **kwargs):
            self.waits += 1
            return method(tensor, *args, **kwargs)

        return waited

    @property
    def total(self):
        return self.by_name.total()


def picks_by_mask(indices):
    """Say whether how much is picked depends on the numbers in a tensor, which the host then has to know."""
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def count(run):
    """Count what a run launches once everything is warm."""
    run()
    with Launches() as found:
        run()
    return found


def small_bert(layers=6):
    """Make a BERT of real depth that is small in everything else, and a task for it."""
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 50, "num_labels": 3}
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=layers, **shape)).eval()
    ids = torch.randint(1, 50, (4 * EXAMPLES, UNITS))
    valid = torch.ones_like(ids, dtype=torch.bool)
    inputs = {"input_ids": ids, "attention_mask": valid.long()}
    return adapt(model), TensorTask(inputs, valid, lambda out: {"label": Categorical(out.logits)}, EXAMPLES)


def as_on_a_gpu(monkeypatch):
    """Let gates answer as they do on a GPU, many at once."""
    monkeypatch.setitem(voter.SMALL, "cpu", 1 << 22)
    monkeypatch.setitem(fused.LARGE, "cpu", 1 << 25)
