"""Several tokens of what a causal model says next: read at the right places, and never themselves gated."""

import pickle

import pytest
import torch

from diffmask.errors import DataError, ModelError
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.objective.divergence import divergence
from diffmask.tasks.continuation import Continuation, own_continuations
from diffmask.tasks.text import Kept, NextToken
from diffmask.training.config import recipe
from diffmask.training.fit import fit
from diffmask.training.step import look
from tiny_text import make_model, make_tokenizer, make_writer

EXAMPLES = [("a funny movie", "fast enjoyable"), ("enjoyable", "movie ."), ("a fast movie . funny", "a")]
SIDES = ["left", "right"]
PROMPTS = ["a funny movie", "fast ."]


def make_task(side="left", **settings):
    return Continuation(make_tokenizer(side, causal=True), EXAMPLES, EXAMPLES, **settings)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("side", SIDES)
def test_each_distribution_is_the_one_a_plain_pass_gives_before_its_token(side, unit):
    task, llama = make_task(side, unit=unit), make_model("llama")
    batch = task.collate(EXAMPLES)
    with torch.no_grad():
        head = task.read(adapt(llama)(batch), batch)["continuation"]
        for row, (prompt, after) in enumerate(EXAMPLES):
            ids = task.tokenizer(prompt)["input_ids"]
            added = task.tokenizer(after, add_special_tokens=False)["input_ids"]
            plain = llama(torch.tensor([ids + added])).logits[0, len(ids) - 1 : len(ids) - 1 + len(added)]
            assert int(head.real[row].sum()) == len(added)
            torch.testing.assert_close(head.raw[row, : len(added)], plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("side", SIDES)
def test_the_first_distribution_is_the_one_over_the_next_token(side):
    whole, model = make_task(side), adapt(make_model("llama"))
    alone = NextToken(whole.tokenizer, [], [])
    prompts = [prompt for prompt, _ in EXAMPLES]
    with torch.no_grad():
        seen = look(model, whole, whole.collate(EXAMPLES)).original["continuation"].raw[:, 0]
        expected = look(model, alone, alone.collate(prompts)).original["next token"].raw
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("side", SIDES)
def test_no_token_of_the_continuation_nor_the_one_asked_is_gated(side):
    task = make_task(side)
    assert task.units(EXAMPLES) == [["a", "fun", "##ny"], ["enjoy"], ["a", "fast", "movie", ".", "fun"]]
    batch = task.collate(EXAMPLES)
    for row, (_, after) in enumerate(EXAMPLES):
        last = int(batch.inputs["attention_mask"][row].nonzero()[-1])
        added = len(task.tokenizer.tokenize(after))
        assert batch.ask[row] == last - added and not batch.valid[row, batch.ask[row] :].any()


def test_a_prediction_is_at_no_distance_from_itself_and_padding_does_not_count():
    task, model = make_task(), adapt(make_model("llama"))
    original = look(model, task, task.collate(EXAMPLES)).original
    torch.testing.assert_close(divergence(original, original), torch.zeros(3))
    (alone,) = (look(model, task, task.collate([EXAMPLES[2]])).original for _ in range(1))
    among = {"continuation": type(original["continuation"])(original["continuation"].raw[2:, :1])}
    torch.testing.assert_close(divergence(alone, among), torch.zeros(1), rtol=0, atol=1e-5)


def test_divergences_of_a_continuation_add_up_over_its_tokens():
    task = make_task()
    one, other = (look(adapt(make_model("llama", seed)), task, task.collate(EXAMPLES)).original for seed in (0, 1))
    logs = [prediction["continuation"].raw.log_softmax(-1) for prediction in (one, other)]
    gaps = (logs[0].exp() * (logs[0] - logs[1])).sum(-1)
    expected = (gaps * one["continuation"].real).sum(1)
    torch.testing.assert_close(divergence(one, other), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bad", ["only a prompt", ("a", "")])
def test_what_is_no_prompt_with_what_follows_is_refused(bad):
    with pytest.raises(DataError, match=r"takes \(prompt, what follows\), got .*own_continuations\(\)"):
        make_task().collate([bad])


@pytest.mark.parametrize("strict", [True, False])
def test_a_prompt_that_fits_and_a_continuation_that_does_not_are_refused(strict):
    task = Continuation(make_tokenizer("left", longest=6, causal=True), [], [], strict=strict)
    wanted = "a prompt of 5 tokens and its continuation of 3 are more than the 6 the model takes: shorten the prompt"
    with pytest.raises(DataError, match=wanted):
        task.collate([("a fast movie .", "a fast movie")])
    assert len(task.collate([("a fast movie .", "a")])) == 1


def test_a_continuation_without_a_token_is_refused():
    with pytest.raises(DataError, match=r"the continuation '  ' has no tokens, so nothing is to be preserved: leave"):
        make_task().collate([("a fast movie", "  ")])


def test_a_prompt_after_which_the_model_says_nothing_is_named():
    llama, tokenizer = make_model("llama"), make_tokenizer("left", causal=True)
    llama.generate = lambda input_ids, **how: torch.cat([input_ids, torch.tensor([[2]])], dim=1)
    tokenizer.eos_token = "[SEP]"
    with pytest.raises(DataError, match=r"the model says nothing after the prompt 'a fast movie'…: leave that prompt"):
        own_continuations(llama, tokenizer, ["a fast movie"])


def test_own_continuations_are_what_the_model_says_greedily():
    llama, tokenizer = make_model("llama"), make_tokenizer("left", causal=True)
    prompts = ["a funny movie", "fast ."]
    found = own_continuations(llama, tokenizer, prompts, tokens=4)
    for prompt, (same, text) in zip(prompts, found, strict=True):
        ids = tokenizer(prompt)["input_ids"]
        for _ in range(4):  # greedily, by hand
            ids.append(int(llama(torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] == 2:
                break
        written = ids[len(tokenizer(prompt)["input_ids"]) :]
        assert same == prompt and text == tokenizer.decode(written, skip_special_tokens=True)


def greedily(model, ids, tokens):
    """Write a continuation by hand, up to the end of a text."""
    written = []
    while len(written) < tokens and 2 not in written:
        written.append(int(model(torch.tensor([ids + written])).logits[0, -1].argmax()))
    return [token for token in written if token != 2]


def test_what_is_explained_is_what_the_model_wrote_also_where_its_text_would_be_cut_otherwise():
    llama, tokenizer = make_model("llama"), make_tokenizer("left", causal=True)
    prompts = ["a funny movie", "a fast", "enjoyable", "what ?"]
    examples = own_continuations(llama, tokenizer, prompts, tokens=4)
    task, cut_otherwise = Continuation(tokenizer, examples, examples), 0
    for prompt, said in pickle.loads(pickle.dumps(examples)):
        before = tokenizer(prompt)["input_ids"]
        wrote = greedily(llama, before, 4)
        assert task.encoded((prompt, said)).inputs["input_ids"] == before + wrote
        cut_otherwise += tokenizer(str(said), add_special_tokens=False)["input_ids"] != wrote
    assert cut_otherwise


def test_a_model_that_is_trained_or_generates_in_a_way_of_its_own_continues_with_its_likeliest_tokens():
    model, tokenizer = make_model("gpt2", 8, attn_pdrop=0.5, embd_pdrop=0.5), make_tokenizer("left", causal=True)
    expected = [said.ids for _, said in own_continuations(model, tokenizer, PROMPTS, tokens=6)]
    ways = {"repetition_penalty": 5.0, "num_beams": 3, "no_repeat_ngram_size": 1, "do_sample": True, "temperature": 9.0}
    model.train().generation_config.update(**ways, suppress_tokens=[4, 5, 6], max_length=9, min_new_tokens=6)
    before = model.generation_config.to_dict()
    assert [said.ids for _, said in own_continuations(model, tokenizer, PROMPTS, tokens=6)] == expected
    assert expected == [tuple(greedily(model.eval(), tokenizer(prompt)["input_ids"], 6)) for prompt in PROMPTS]
    assert model.generation_config.to_dict() == before


def test_a_model_in_training_is_left_in_training():
    model = make_model("gpt2", 8).train()
    own_continuations(model, make_tokenizer(causal=True), PROMPTS, tokens=2)
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_prompt_that_leaves_no_room_for_what_follows_is_refused(kind):
    model, tokenizer = make_model(kind), make_tokenizer("left", causal=True, longest=int(1e30))
    wanted = r"a prompt of {} tokens and its continuation of {} are more than the 24 the model takes: shorten"
    for given in (model, adapt(model, tokenizer)):
        for prompt, tokens in (("a fast movie . " * 12, 3), ("a fast movie . " * 5, 9)):
            with pytest.raises(DataError, match=wanted.format(1 + len(prompt.split()), tokens)):
                own_continuations(given, tokenizer, [prompt], tokens=tokens)


def test_an_adapted_model_continues_as_it_does_itself():
    model, tokenizer = make_model("llama"), make_tokenizer("left", causal=True)
    prompts = ["a funny movie", "fast ."]
    assert own_continuations(adapt(model), tokenizer, prompts) == own_continuations(model, tokenizer, prompts)


def test_continuations_of_segments_are_explained_by_them():
    llama, tokenizer = make_model("llama"), make_tokenizer("left", causal=True)
    prompts = [["a funny movie .", "fast .", Kept("what movie ?")], ["enjoyable .", Kept("what ?")]] * 4
    examples = [(prompt, "a fast movie") for prompt, _ in own_continuations(llama, tokenizer, prompts, tokens=2)]
    task = Continuation(tokenizer, examples, examples, unit="segment")
    settings = recipe(margin=1.0, steps=3, batch_size=4, ablation_steps=2, guard=False)
    explanation = explain(fit(adapt(llama, tokenizer), task, settings), examples[:1])[0]
    assert explanation.units == ("a funny movie .", "fast .") and explanation.scores.shape[1] == 2
    assert len(explanation.verification.original["continuation"]) == 3


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_a_model_that_writes_apart_from_what_it_reads_has_no_continuation(kind):
    writer, task = make_writer(kind), make_task("right")
    with pytest.raises(ModelError, match=r"ForConditionalGeneration writes its answer apart.*NextToken explains"):
        own_continuations(writer, task.tokenizer, ["a funny movie"])
    with pytest.raises(ModelError, match=r"writes its answer apart from what it reads.*: NextToken explains"):
        look(adapt(writer), task, task.collate(EXAMPLES))
