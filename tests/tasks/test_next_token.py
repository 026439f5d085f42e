"""The next token of models that write their answer apart from what they read, such as T5 and BART: its first."""

import pytest
import torch

from diffmask.errors import DataError, ModelError
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.tasks.continuation import Continuation, own_continuations
from diffmask.tasks.text import NextToken
from diffmask.training.fit import fit
from diffmask.training.step import look
from saved_models import short
from tiny_text import TEXTS, make_model, make_tokenizer, make_writer

KINDS = ["t5", "bart"]


def make_task():
    tokenizer = make_tokenizer(model_input_names=["input_ids", "attention_mask"])
    return NextToken(tokenizer, TEXTS * 4, TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_token_is_the_first_that_the_model_writes(kind):
    task, writer = make_task(), make_writer(kind)
    found = look(adapt(writer), task, task.collate(TEXTS)).original["next token"].decision()
    for text, token in zip(TEXTS, found.tolist(), strict=True):
        inputs = task.tokenizer(text, return_tensors="pt")
        forced = 0 if kind == "t5" else 1  # BART is made to begin with [CLS], whatever it reads
        written = writer.generate(**inputs, max_new_tokens=4, do_sample=False, num_beams=1)
        assert written[0, 1 + forced] == token


@pytest.mark.parametrize("kind", KINDS)
def test_what_such_a_model_reads_is_explained_by_its_tokens(kind):
    task = make_task()
    found = explain(fit(adapt(make_writer(kind), task.tokenizer), task, short()), TEXTS[:1])[0]
    assert found.units == ("a", "fun", "##ny", "movie", ".") and found.depths[0].split(".")[-2] == "encoder"
    assert isinstance(found.verification.original["next token"], int)


def test_a_model_that_does_not_say_how_it_begins_is_refused():
    writer, task = make_writer("t5"), make_task()
    writer.config.decoder_start_token_id = writer.generation_config.decoder_start_token_id = None
    wanted = r"T5ForConditionalGeneration writes its answer apart.*set model\.config\.decoder_start_token_id"
    with pytest.raises(ModelError, match=wanted):
        look(adapt(writer), task, task.collate(TEXTS))


ENDS = {"eos_token": "[SEP]", "model_input_names": ["input_ids", "attention_mask"]}
ENDED = r"ends every prompt with '\[SEP\]', after which a causal model begins another text: .*add_eos_token=False"


@pytest.mark.parametrize(("kind", "text"), [(NextToken, "a movie"), (Continuation, ("a movie", "fast"))])
def test_what_follows_the_end_of_a_text_is_not_explained(kind, text):
    task, model = kind(make_tokenizer(**ENDS), [], []), adapt(make_model("llama"))
    with pytest.raises(DataError, match=ENDED):
        look(model, task, task.collate([text]))


def test_nor_is_it_written_by_a_model_itself():
    with pytest.raises(DataError, match=ENDED):
        own_continuations(make_model("llama"), make_tokenizer(**ENDS), ["a movie"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_writes_apart_rightly_reads_to_the_end(kind):
    task = NextToken(make_tokenizer(**ENDS), TEXTS, TEXTS)
    assert look(adapt(make_writer(kind)), task, task.collate(TEXTS)).original["next token"].raw.shape[0] == 3


def test_a_token_that_begins_a_text_may_be_the_one_that_ends_it():
    task = NextToken(make_tokenizer(causal=True, bos_token="[CLS]", eos_token="[CLS]"), [], [])
    assert look(adapt(make_model("llama")), task, task.collate(TEXTS)).original["next token"].raw.shape[0] == 3


def test_what_a_task_gives_the_decoder_is_left_as_it_is():
    writer, task = make_writer("t5"), make_task()
    batch = task.collate(TEXTS[:1])
    given = {**batch.inputs, "decoder_input_ids": torch.tensor([[0, 5, 6]])}
    with torch.no_grad():
        assert adapt(writer)(type(batch)(given, batch.valid)).logits.shape[1] == 3
