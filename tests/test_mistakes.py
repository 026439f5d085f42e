"""What is given by mistake is answered in a sentence that says what is taken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SAID = {
    "series": "DataError: examples must be a list, got Series: pass list(examples)",
    "series to check": "DataError: examples must be a list, got Series: pass list(examples)",
    "series to explain": "DataError: examples must be a list, got Series: pass list(examples)",
    "frame": "DataError: examples must be a list, got DataFrame: pass one column, such as list(examples['text'])",
    "dict": "DataError: examples must be a list, got dict: pass [example], or one column",
    "generator": "DataError: examples must be a list, got generator: pass list(examples)",
    "generator to explain": "DataError: examples must be a list, got generator: pass list(examples)",
    "number": "DataError: examples must be a list, got int: pass [example]",
    "array": "nothing",
    "numbers as labels": "DataError: labels takes the names of the model's labels, in its order, got [0, 1, 2]: ",
    "dict of labels": "got {0: 'bad', 1: 'good'}: pass list(id2label.values())",
    "letters as labels": "DataError: labels takes the names of the model's labels, in its order, got 'abc': pass e.g.",
    "names of any kind": "nothing",
    "numbers of any kind": "nothing",
    "length of any kind": "nothing",
    "empty piece of no unit": "nothing",
    "empty template": "nothing",
    "no unit": "DataError: no unit named 'None'",
    "length as text": "SettingError: max_length must be a number of tokens, got '5'",
    "broken length": "SettingError: max_length must be a number of tokens, got 5.5",
    "true around": "SettingError: around must be 0 or a number of units on each side of a gate's own, got True",
    "name for tokenizer": "DataError: a task on texts takes a tokenizer, got str: load the one that was saved with the",
    "model for tokenizer": "DataError: a task on texts takes a tokenizer, got BertForSequenceClassification: load the",
    "empty segment": "DataError: segment 1 of a text is empty, and would be no unit: leave it out",
    "tuples": "ModelError: TextClassification reads logits by its name, and the model gives a tuple: set "
    "model.config.return_dict = True",
    "settings": "SettingError: fit takes the name of a recipe or its settings, got dict: pass e.g. recipe(",
    "broken depth": "SettingError: depth must be a number or the name of a site, got 1.5",
    "broken batch size": "SettingError: batch_size must be at least 1, got 1.5",
    "number for site": "SiteError: a site is the name of a module, or a Site(…), got 1: see model.named_modules()",
    "nothing saved": "SettingError: from_pretrained takes the directory of a saved probe or its name, got NoneType",
    "negative label": "SettingError: there is no label -1: the model knows negative, positive, counted from 0",
    "tensor for label": "SettingError: a target is a label's name or number, got Tensor: pass its name or int(…)",
    "no tokens": "SettingError: tokens must be at least 1, got 0: it says how many the model writes",
    "broken tokens": "SettingError: tokens must be at least 1, got 1.5: it says how many the model writes",
    "no writer": "ModelError: BertForSequenceClassification writes no text: load a model that does",
    "no template": "DataError: TokenizersBackend has no chat template: give its model plain prompts",
    "unknown task": "StorageError: diffmask.json describes a task that this diffmask does not know (kind 'riddle')",
    "unknown setting": "StorageError: diffmask.json describes a task that this diffmask does not know (",
    "other class": " belongs to a BertForSequenceClassification, got a GPT2LMHeadModel: give the model it",
    "revision of a directory": "is a directory, which has no revision main: leave revision out",
}


@pytest.fixture(scope="module")
def answers():
    """Make the calls in a process of their own: here, types are checked before the library sees them."""
    here = Path(__file__).parent
    path = os.pathsep.join((str(here), str(here.parent / "src")))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", here / "mistakes.py"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_every_mistake_is_expected(answers):
    assert answers.keys() == SAID.keys()


@pytest.mark.parametrize("name", SAID)
def test_a_mistake_is_answered_in_a_sentence(answers, name):
    assert SAID[name] in answers[name]
