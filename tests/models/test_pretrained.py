"""Loading models of transformers from disk: what is missing is named, and nothing is made up."""

import pytest
import torch
from transformers import BertConfig, BertModel

from diffmask.errors import ModelError, StorageError
from diffmask.models.hub import fetch, hub_name
from diffmask.models.pretrained import kind_of, labels_of, load_model, load_processor
from saved_models import WRITERS, save_model
from tiny_text import SIZES, make_tokenizer


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("bert"), "classification")


@pytest.mark.parametrize(
    "kind", ["classification", "multi-label", "regression", "token", "span", "next-token", "image"]
)
def test_a_model_says_which_task_it_was_trained_for(kind, tmp_path):
    place = fetch(save_model(tmp_path, kind))
    assert kind_of(place) == kind and not load_model(place, kind).training


@pytest.mark.parametrize("kind", WRITERS)
def test_a_model_that_writes_apart_from_what_it_reads_is_loaded_whole(kind, tmp_path):
    place = fetch(save_model(tmp_path, kind))
    assert kind_of(place) == "next-token"
    assert type(load_model(place, "next-token")).__name__.endswith("ForConditionalGeneration")


def test_loading_is_quiet_and_leaves_the_dice_alone(bert, capfd):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert labels_of(load_model(fetch(bert), "classification")) == ["bad", "fair", "good"]
    assert torch.equal(torch.get_rng_state(), before) and capfd.readouterr() == ("", "")


def test_no_tokenizer_or_image_processor_beside_a_model_is_said(tmp_path):
    for kind, what in (("classification", "tokenizer"), ("image", "image processor")):
        place = fetch(save_model(tmp_path / kind, kind))
        for path in place.path.iterdir():
            if path.name not in ("config.json", "model.safetensors"):
                path.unlink()
        with pytest.raises(ModelError, match=f"no {what} beside the model in .*: save it there"):
            load_processor(place, kind)


def test_a_broken_tokenizer_is_one_sentence(bert, tmp_path):
    make_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"the tokenizer of .* cannot be loaded"):
        load_processor(fetch(tmp_path), "classification")


def test_a_model_without_a_head_for_the_task_is_refused(bert):
    with pytest.raises(
        ModelError, match=r"not trained for 'span': it is a BertForSequenceClassification, which does 'classification'"
    ):
        load_model(fetch(bert), "span")


def test_a_model_whose_weights_fit_another_task_by_chance_is_refused(bert, tmp_path):
    with pytest.raises(ModelError, match="not trained for 'token': it is a BertForSequenceClassification"):
        load_model(fetch(bert), "token")
    with pytest.raises(ModelError, match="not trained for 'classification': it is a BertForTokenClassification"):
        load_model(fetch(save_model(tmp_path, "token")), "classification")


def test_a_model_that_does_not_say_what_it_was_trained_for_is_refused_by_the_weights_it_lacks(tmp_path):
    BertModel(BertConfig(**SIZES)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="not trained for 'span': it has no weights for qa_outputs"):
        load_model(fetch(tmp_path), "span")


def test_pickles_and_broken_weights_are_refused(tmp_path):
    place = fetch(save_model(tmp_path, "classification"))
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(ModelError, match="is no model that does 'classification'"):
        load_model(place, "classification")
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no weights in safetensors: diffmask opens no pickles"):
        load_model(place, "classification")


def test_a_directory_that_holds_no_model_is_one_sentence(tmp_path):
    with pytest.raises(ModelError, match="is no model of transformers"):
        kind_of(fetch(tmp_path))


@pytest.mark.parametrize("name", ["./here", "a/b/c", "../x", "/abs", "a//b", "~/m"])
def test_a_path_that_is_not_there_is_never_looked_for_on_the_hub(name, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert not hub_name(name)
    with pytest.raises(StorageError, match="there is no directory"):
        fetch(name)


def test_a_name_is_one_of_the_hubs():
    assert hub_name("bert-base-uncased") and hub_name("someone/model.v2")
