"""Fit, save, load by name, explain: the probe comes back with its model, and only with its model."""

import json
from pathlib import Path

import pytest
import torch

from diffmask.errors import DataError, DiffMaskError, ModelError, SettingError, StorageError
from diffmask.explaining.explain import explain
from diffmask.explaining.pretrained import from_pretrained
from diffmask.models import hub as hub_room
from diffmask.models.adapting import adapt
from diffmask.models.hub import Place, fetch
from diffmask.models.pretrained import labels_of, load_model, load_processor
from diffmask.tasks.described import TASKS, make_task
from diffmask.tasks.images import ImageClassification, PlainProcessor
from diffmask.tasks.text import MultiLabelClassification, TextClassification
from diffmask.training import pretrained as saving
from diffmask.training.fit import fit
from saved_models import TEXTS, save_model, short
from toys import evidence_model, evidence_task, small_recipe

PAIRS = [("what movie ?", text) for text in TEXTS]
EXAMPLES = {"span": PAIRS, "continuation": [(text, "a movie") for text in TEXTS]}


def fit_saved(directory, kind, **settings):
    """Load a saved model as a user would, and fit a probe to it."""
    place = fetch(directory)
    model, processor = load_model(place, kind), load_processor(place, kind)
    adapted = adapt(model, processor)
    examples = EXAMPLES.get(kind, TEXTS)
    if kind == "image":
        examples = [torch.randint(0, 255, (3, 12, 20), dtype=torch.uint8) for _ in range(4)]
        settings = {"patch": adapted.patch, "labels": labels_of(model), **settings}
    task = make_task({"kind": kind, "settings": settings}, processor, examples * 2, examples)
    return fit(adapted, task, short())


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model"), "classification")


@pytest.fixture(scope="module")
def fitted(model_path):
    return fit_saved(model_path, "classification", ask="first", labels=["bad", "fair", "good"])


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a.scores, b.scores) and a.verification == b.verification for a, b in pairs)


@pytest.mark.parametrize("kind", TASKS.names)
def test_a_probe_for_every_kind_of_task_comes_back_with_its_model(kind, tmp_path):
    fitted = fit_saved(save_model(tmp_path / "model", kind), kind)
    fitted.save_pretrained(tmp_path / "run")
    loaded = from_pretrained(tmp_path / "run")
    examples = fitted.task.validation
    assert same(explain(fitted, examples), explain(loaded, examples))
    assert loaded.config == fitted.config and loaded.scores == fitted.scores


def test_only_the_probe_is_saved_and_a_record_and_a_card(saved, fitted):
    assert sorted(path.name for path in saved.iterdir()) == ["README.md", "diffmask.json", "probe.safetensors"]
    record = json.loads((saved / "diffmask.json").read_text())
    assert record["base"]["fingerprint"] == fitted.fingerprint and record["base"]["dtype"] == "float32"
    assert record["task"]["settings"]["ask"] == "first" and record["versions"]["torch"]
    card = (saved / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: diffmask") and "license" not in card and "base_model" not in card


def test_a_card_that_a_person_wrote_is_left_alone(fitted, tmp_path):
    (tmp_path / "README.md").write_text("my notes")
    fitted.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "my notes"


def test_settings_of_task_and_tokenizer_come_back(model_path, tmp_path):
    fitted = fit_saved(model_path, "classification", unit="word", keep=["Movie"], gate_special=False, max_length=9)
    fitted.task.tokenizer.pad_token = "."
    fitted.save_pretrained(tmp_path)
    task = from_pretrained(tmp_path).task
    assert task.unit == "word" and task.keep == {"movie"} and not task.gate_special and task.max_length == 9
    assert task.tokenizer.pad_token == "." and not task.strict
    assert from_pretrained(tmp_path, strict=True).task.strict


def test_images_come_back_with_a_plain_processor_and_their_size(tmp_path):
    place = fetch(save_model(tmp_path / "model", "image"))
    adapted, images = adapt(load_model(place, "image")), [torch.randint(0, 255, (3, 30, 30), dtype=torch.uint8)] * 4
    fitted = fit(adapted, ImageClassification(PlainProcessor((12, 20)), images, images, patch=4), short())
    fitted.save_pretrained(tmp_path / "run")
    loaded = from_pretrained(tmp_path / "run")
    assert loaded.task.processor == PlainProcessor((12, 20)) and loaded.task.grid == (3, 5)
    assert same(explain(fitted, images), explain(loaded, images))


def test_the_model_may_be_given_by_name_or_loaded(saved, fitted, model_path):
    place = fetch(model_path)
    model, tokenizer = load_model(place, "classification"), load_processor(place, "classification")
    for given in (model_path, model, adapt(model, tokenizer)):
        loaded = from_pretrained(saved, model=given, tokenizer=tokenizer)
        assert same(explain(loaded, TEXTS), explain(fitted, TEXTS))
    assert from_pretrained(saved, model=str(model_path), tokenizer=str(model_path)).task.labels[2] == "good"


def test_a_task_that_misnames_the_labels_is_refused_as_by_a_fit(saved, fitted):
    def load(labels):
        task = TextClassification(fitted.task.tokenizer, TEXTS, TEXTS, ask="first", labels=labels)
        return from_pretrained(saved, task=task).task.labels

    with pytest.raises(DataError, match="labels names good, fair, bad, and the model has them as bad, fair, good"):
        load(["good", "fair", "bad"])
    with pytest.raises(DataError, match="labels names two of them 'bad'"):
        load(["bad", "bad", "good"])
    assert load(["poor", "so-so", "great"])[2] == "great" and load(None) is None


def test_a_task_of_another_kind_is_refused(saved, fitted):
    task = MultiLabelClassification(fitted.task.tokenizer, TEXTS, TEXTS, ask="first")
    wanted = "fitted to a task of kind 'classification', got one of kind 'multi-label': pass a TextClassification"
    with pytest.raises(StorageError, match=wanted):
        from_pretrained(saved, task=task)


def test_another_model_is_refused_by_its_fingerprint(saved, tmp_path):
    other = save_model(tmp_path / "other", "classification", seed=1)
    with pytest.raises(StorageError, match="was fitted on another model"):
        from_pretrained(saved, model=other)


def test_a_loaded_model_without_its_tokenizer_is_refused(saved, fitted):
    with pytest.raises(SettingError, match="needs its tokenizer"):
        from_pretrained(saved, model=fitted.model.model)


def test_the_dtype_is_changed_after_the_weights_were_checked(saved, fitted):
    loaded = from_pretrained(saved, dtype="bfloat16", device="cpu")
    assert loaded.model.dtype == torch.bfloat16 and loaded.fingerprint == fitted.fingerprint
    assert explain(loaded, TEXTS)[0].verification is not None
    with pytest.raises(SettingError, match="no dtype named 'int3'"):
        from_pretrained(saved, dtype="int3")


def test_a_model_in_half_precision_comes_back_in_it(tmp_path):
    path = save_model(tmp_path / "model", "classification")
    load_model(fetch(path), "classification", torch.bfloat16).save_pretrained(path)
    fit_saved(path, "classification").save_pretrained(tmp_path / "run")
    assert from_pretrained(tmp_path / "run").model.dtype == torch.bfloat16


def test_a_device_that_is_not_there_is_one_sentence(saved):
    with pytest.raises(ModelError, match="cannot be moved to 'no-such-device'"):
        from_pretrained(saved, device="no-such-device")


def test_the_embedded_probes_have_names():
    assert from_pretrained("embedded").config.probe.kind == "input"
    assert from_pretrained("embedded:hidden").config.probe.kind == "hidden"
    with pytest.raises(SettingError, match="Known: embedded, embedded:input, embedded:hidden"):
        from_pretrained("embedded:layers")


@pytest.mark.parametrize("what", ["model", "tokenizer", "revision"])
def test_what_the_embedded_probes_would_leave_aside_is_refused(what):
    wanted = rf"'embedded' comes with its own model and takes no {what}, got '/nowhere': fit a probe .* with --run"
    with pytest.raises(SettingError, match=wanted):
        from_pretrained("embedded", **{what: "/nowhere"})


def test_what_is_given_to_an_embedded_probe_loaded_is_refused_by_its_class(fitted):
    with pytest.raises(SettingError, match="takes no task, got a TextClassification"):
        from_pretrained("embedded", task=fitted.task)
    with pytest.raises(SettingError, match="takes no model, got a BertForSequenceClassification"):
        from_pretrained("embedded:hidden", model=fitted.model.model, tokenizer=fitted.task.tokenizer)


def test_a_directory_that_is_no_run_is_one_sentence(tmp_path):
    with pytest.raises(StorageError, match=r"no saved probe, as it has no diffmask.json"):
        from_pretrained(tmp_path)
    (tmp_path / "checkpoint.safetensors").touch()
    with pytest.raises(StorageError, match="a fit that has not ended: run the same command again"):
        from_pretrained(tmp_path)
    with pytest.raises(StorageError, match="there is no directory"):
        from_pretrained(tmp_path / "nope")
    with pytest.raises(StorageError, match="is a file"):
        from_pretrained(tmp_path / "checkpoint.safetensors")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "is broken"), ("[]", "not written by diffmask"), ('{"format": "diffmask"}', "not written by diffmask")],
)
def test_a_broken_record_is_one_sentence(saved, content, complaint):
    (saved / "diffmask.json").write_text(content)
    with pytest.raises(StorageError, match=complaint):
        from_pretrained(saved)


def test_a_record_of_another_version_or_another_fit_is_refused(saved):
    record = json.loads((saved / "diffmask.json").read_text())
    (saved / "diffmask.json").write_text(json.dumps({**record, "settings": {**record["settings"], "steps": 3}}))
    with pytest.raises(StorageError, match="are of different fits"):
        from_pretrained(saved)
    (saved / "diffmask.json").write_text(json.dumps({**record, "version": 99}))
    with pytest.raises(StorageError, match="layout version 99"):
        from_pretrained(saved)


def test_a_model_that_moved_is_asked_for(saved):
    record = json.loads((saved / "diffmask.json").read_text())
    record["base"]["model"] = "/nowhere/at/all"
    (saved / "diffmask.json").write_text(json.dumps(record))
    with pytest.raises(StorageError, match="which is not there: say where it is now, with model=… or --model"):
        from_pretrained(saved)


def test_a_task_of_the_users_own_is_passed_again(tmp_path):
    fitted = fit(evidence_model(), evidence_task(), small_recipe(steps=2))
    fitted.save_pretrained(tmp_path)
    with pytest.raises(StorageError, match="a task of its author's"):
        from_pretrained(tmp_path)
    loaded = from_pretrained(tmp_path, model=evidence_model(), task=evidence_task())
    assert same(explain(loaded, fitted.task.validation[:3]), explain(fitted, fitted.task.validation[:3]))
    with pytest.raises(StorageError, match="load its model and pass it"):
        from_pretrained(tmp_path, task=evidence_task())


class Hub:
    """Stands in for the Hub's client: remembers what was asked, and answers from a directory."""

    def __init__(self, files=None, trouble=None):
        import huggingface_hub.errors

        self.errors, self.files, self.trouble, self.asked = huggingface_hub.errors, files, trouble, []

    def model_info(self, name, revision, timeout):
        if self.trouble:
            raise self.trouble
        return type("Info", (), {"sha": "abc123"})

    def snapshot_download(self, name, revision, allow_patterns, local_files_only=False):
        if local_files_only:
            raise OSError("not cached")
        self.asked.append((name, revision, tuple(allow_patterns)))
        return str(self.files)

    def create_repo(self, name, private, exist_ok, token):
        if self.trouble:
            raise self.trouble
        self.asked.append((name, private))
        return type("Url", (), {"repo_id": name})

    def upload_folder(self, repo_id, folder_path, commit_message, token):
        self.asked.append((repo_id, sorted(path.name for path in Path(folder_path).iterdir())))
        return f"https://huggingface.co/{repo_id}"


@pytest.fixture
def hub(monkeypatch):
    def use(**settings):
        stub = Hub(**settings)
        monkeypatch.setattr(hub_room, "import_hub", lambda: stub)
        monkeypatch.setattr(saving, "import_hub", lambda: stub)
        return stub

    return use


def test_a_probe_is_fetched_from_the_hub_at_its_revision_and_nothing_else(hub, saved, fitted):
    stub = hub(files=saved)
    loaded = from_pretrained("someone/probe", revision="main")
    assert stub.asked == [("someone/probe", "abc123", ("probe.safetensors", "diffmask.json"))]
    assert same(explain(loaded, TEXTS), explain(fitted, TEXTS))


def test_a_model_is_fetched_without_code_or_pickles_and_remembers_its_name(hub, model_path):
    stub = hub(files=model_path)
    place = fetch("someone/model")
    assert place == Place(model_path, "someone/model", "abc123")
    assert not any("py" in pattern or "bin" in pattern for pattern in stub.asked[0][2])
    model = load_model(place, "classification")
    assert model.name_or_path == "someone/model" and model.config._commit_hash == "abc123"


def test_a_hub_out_of_reach_is_one_sentence(hub):
    hub(trouble=ConnectionError("no route"))
    with pytest.raises(StorageError, match=r"could not be reached .*\(no route\): check the connection"):
        from_pretrained("someone/probe")


def test_a_probe_is_pushed_with_the_name_of_its_model(hub, fitted, monkeypatch):
    stub = hub()
    with pytest.raises(SettingError, match="which others do not have: push the model first"):
        fitted.push_to_hub("me/probe")
    monkeypatch.setattr(fitted.model.model, "name_or_path", "someone/model")
    assert fitted.push_to_hub("me/probe", private=True) == "https://huggingface.co/me/probe"
    assert stub.asked == [("me/probe", True), ("me/probe", ["README.md", "diffmask.json", "probe.safetensors"])]
    with pytest.raises(SettingError, match="no name of a repository"):
        fitted.push_to_hub("a/b/c")
    hub(trouble=ConnectionError("no route"))
    with pytest.raises(DiffMaskError, match="could not be written to the Hub"):
        fitted.push_to_hub("me/probe")
