"""Calls with arguments of the wrong kind, as people make them: run as a program, without the type checks of the tests.

Prints what each call says, as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from diffmask.explaining.embedded import load_embedded
from diffmask.explaining.explain import explain
from diffmask.explaining.explainer import Explainer
from diffmask.explaining.pretrained import from_pretrained
from diffmask.models.adapting import adapt
from diffmask.tasks.continuation import in_chat, own_continuations
from diffmask.tasks.text import TextClassification
from diffmask.tasks.units import Kept
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from tiny_text import TEXTS, make_model, make_tokenizer

FRAME = pd.DataFrame({"text": TEXTS}, index=[5, 3, 8])
EMBEDDED = load_embedded()


def task(**settings):
    given = {"tokenizer": make_tokenizer(), "train": TEXTS, "validation": TEXTS, **settings}
    return TextClassification(given.pop("tokenizer"), given.pop("train"), given.pop("validation"), **given)


def tuples():
    model = make_model("bert")
    model.config.return_dict = False
    return fit(adapt(model, make_tokenizer()), task(), recipe(steps=1))


def saved(**changes):
    """Read a record that was changed."""
    model, tokenizer = make_model("bert"), make_tokenizer()
    config = recipe(margin=1.0, steps=1, batch_size=2, ablation_steps=1, guard=False)
    with tempfile.TemporaryDirectory() as place:
        fit(adapt(model, tokenizer), task(), config).save_pretrained(place)
        path = Path(place) / "diffmask.json"
        record = json.loads(path.read_text())
        record["task"].update(changes)
        path.write_text(json.dumps(record))
        return from_pretrained(place, model=model, tokenizer=tokenizer)


def other_class():
    with tempfile.TemporaryDirectory() as place:
        config = recipe(margin=1.0, steps=1, batch_size=2, ablation_steps=1, guard=False)
        fit(adapt(make_model("bert"), make_tokenizer()), task(), config).save_pretrained(place)
        return from_pretrained(place, model=make_model("gpt2"), tokenizer=make_tokenizer())


CALLS = {
    "series": lambda: task(train=FRAME.text),
    "series to check": lambda: task(validation=FRAME.text),
    "series to explain": lambda: explain(EMBEDDED, FRAME.text),
    "frame": lambda: task(train=FRAME),
    "dict": lambda: task(train={"text": TEXTS}),
    "generator": lambda: task(train=(text for text in TEXTS)),
    "generator to explain": lambda: explain(EMBEDDED, (text for text in TEXTS)),
    "number": lambda: task(train=7),
    "array": lambda: task(train=np.array(TEXTS)),
    "numbers as labels": lambda: task(labels=[0, 1, 2]),
    "dict of labels": lambda: task(labels={0: "bad", 1: "good"}),
    "letters as labels": lambda: task(labels="abc"),
    "names of any kind": lambda: [task(labels=names) for names in ({0: "a", 1: "b"}.values(), np.array(["a", "b"]))],
    "numbers of any kind": lambda: explain(EMBEDDED, ["fine"], depth=np.int64(1), batch_size=np.int64(2)),
    "length of any kind": lambda: task(max_length=np.int64(8)),
    "empty piece of no unit": lambda: task().units([["a movie", "", "fun"]]),
    "empty template": lambda: task(unit="segment").units([["a movie", Kept("")]]),
    "no unit": lambda: task(unit=None),
    "length as text": lambda: task(max_length="5"),
    "broken length": lambda: task(max_length=5.5),
    "true around": lambda: task(around=True),
    "name for tokenizer": lambda: task(tokenizer="bert-base"),
    "model for tokenizer": lambda: task(tokenizer=make_model("bert")),
    "empty segment": lambda: task(unit="segment").units([["a movie", "", "fun"]]),
    "tuples": tuples,
    "settings": lambda: fit(adapt(make_model("bert")), task(), {"margin": 1}),
    "broken depth": lambda: explain(EMBEDDED, ["fine"], depth=1.5),
    "broken batch size": lambda: explain(EMBEDDED, ["fine"], batch_size=1.5),
    "number for site": lambda: adapt(make_model("bert"), sites=[1]),
    "nothing saved": lambda: from_pretrained(None),
    "negative label": lambda: Explainer(EMBEDDED)(["a good film"], target=-1),
    "tensor for label": lambda: Explainer(EMBEDDED)(["a good film"], target=torch.tensor(1)),
    "no tokens": lambda: own_continuations(make_model("gpt2"), make_tokenizer(causal=True), TEXTS, tokens=0),
    "broken tokens": lambda: own_continuations(make_model("gpt2"), make_tokenizer(causal=True), TEXTS, tokens=1.5),
    "no writer": lambda: own_continuations(adapt(make_model("bert")), make_tokenizer(), TEXTS),
    "no template": lambda: in_chat(make_tokenizer(), ["a"]),
    "unknown task": lambda: saved(kind="riddle"),
    "unknown setting": lambda: saved(settings={"mood": "good"}),
    "other class": other_class,
    "revision of a directory": lambda: from_pretrained(tempfile.gettempdir(), revision="main"),
}


def said(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    json.dump({name: said(call) for name, call in CALLS.items()}, sys.stdout)
