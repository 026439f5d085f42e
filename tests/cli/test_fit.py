"""`diffmask fit` from the outside: from a table to a run that explains, repeats, resumes and complains well."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from diffmask.cli import common
from diffmask.cli import fit as fit_command
from diffmask.training.bar import Bar
from saved_models import TEXTS, save_model
from tiny_vision import build

SHORT = ["--steps", "2", "--batch-size", "4", "--margin", "1.0"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model"), "classification")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A model without a tokenizer."""
    path = save_model(tmp_path_factory.mktemp("bare"), "classification")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (path / name).unlink()
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("text,second,label\n" + "".join(f"{text},a movie,1\n" for text in TEXTS * 4))
    return path


@pytest.fixture
def quick(tmp_path):
    """Settings that skip the fit of the baseline, which takes longer than all else here."""
    path = tmp_path / "quick.toml"
    path.write_text("[fit]\nsteps = 9\n[fit.probe.baseline]\nablation_steps = 2\n")
    return ["--config", path]


def test_a_table_becomes_a_run_that_explains(run, model, table, quick, tmp_path):
    out = tmp_path / "run"
    code, said, complaint = run("fit", model, "--data", table, *quick, *SHORT, "--output", out)
    assert code == 0, complaint
    assert "divergence" in said and "layer.1" in said and f"wrote {out}" in said and "Traceback" not in complaint
    files = {path.name for path in out.iterdir()}
    assert files == {"probe.safetensors", "diffmask.json", "README.md", "run.toml", "checkpoint.safetensors"}
    code, said, _ = run("explain", "--run", out, "a funny movie", "--json")
    found = json.loads(said)
    assert code == 0 and found["units"][1:4] == ["a", "fun", "##ny"] and found["prediction"] in ("bad", "fair", "good")


def test_the_settings_that_are_written_repeat_the_run(run, model, table, quick, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    options = ["--unit", "word", "--ask", "first", "--kind", "hidden", "--seed", "7"]
    assert run("fit", model, "--data", table, *quick, *SHORT, *options, "--output", first, "--json")[0] == 0
    written = tomllib.loads((first / "run.toml").read_text())
    assert written["data"]["train"] == str(table) and written["recipe"] == "text" and written["model"] == str(model)
    assert written["task"]["kind"] == "classification" and written["task"]["unit"] == "word"
    assert written["fit"]["steps"] == 2 and written["fit"]["probe"]["baseline"]["ablation_steps"] == 2
    assert written["fit"]["seed"] == 7 and written["fit"]["probe"]["kind"] == "hidden"
    assert written["fit"]["objective"]["margin"] == 1.0 and written["fit"]["weight_decay"] == 0.1
    code, said, _ = run("fit", "--config", first / "run.toml", "--output", again, "--json")
    assert code == 0 and len(json.loads(said)["scores"]) == 4
    for name in ("run.toml", "probe.safetensors", "diffmask.json"):
        assert (first / name).read_bytes() == (again / name).read_bytes()


def test_other_settings_into_the_same_run_are_refused_and_the_same_ones_go_on(run, model, table, quick, tmp_path):
    command = ["fit", model, "--data", table, *quick, *SHORT, "--output", tmp_path / "run", "--json"]
    assert run(*command)[0] == 0
    before = (tmp_path / "run" / "run.toml").read_text()
    code, _, complaint = run(*command, "--steps", "3")
    assert code == 1 and "holds a finished fit with other settings (fit.steps differ): name another" in complaint
    assert (tmp_path / "run" / "run.toml").read_text() == before
    assert run(*command)[0] == 0


def test_what_is_finished_is_never_overwritten_though_its_checkpoint_is_gone(run, model, table, quick, tmp_path):
    out = tmp_path / "run"
    command = ["fit", model, "--data", table, *quick, *SHORT, "--output", out, "--json"]
    assert run(*command)[0] == 0
    (out / "checkpoint.safetensors").unlink()
    before = {path: path.read_bytes() for path in out.iterdir()}
    for changes in ([], ["--seed", "3"]):
        code, _, complaint = run(*command, *changes)
        assert code == 1 and f"{out} holds a finished fit" in complaint and "--output" in complaint
    assert before == {path: path.read_bytes() for path in out.iterdir()}


def test_a_fit_that_diverged_says_how_its_directory_takes_another_try(run, model, table, quick, tmp_path, monkeypatch):
    from diffmask.errors import CollapseError
    from diffmask.training.trainer import Trainer

    def collapse(*_):
        raise CollapseError("depth 0 drops everything: try a larger margin or a smaller learning rate")

    out, saved = tmp_path / "run", tmp_path / "run" / "checkpoint.safetensors"
    command = ["fit", model, "--data", table, *quick, *SHORT, "--output", out, "--json"]
    with monkeypatch.context() as broken:
        broken.setattr(Trainer, "_validate", collapse)
        broken.setattr(Trainer, "_finish", collapse)
        code, _, complaint = run(*command)
    assert code == 1 and f"to try other settings in {out}, remove {saved.name} there" in complaint
    code, _, complaint = run(*command, "--learning-rate", "0.001")
    assert code == 1 and "holds an unfinished fit with other settings (fit.learning_rate differ)" in complaint
    assert f"begin anew by removing {saved}" in complaint and "--output" in complaint
    saved.unlink()
    assert run(*command, "--learning-rate", "0.001")[0] == 0


def save_pictures(folder):
    from PIL import Image

    folder.mkdir()
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 255, (20, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")


def test_an_image_folder_and_a_question_table_are_fitted_too(run, quick, tmp_path):
    save_pictures(tmp_path / "pictures")
    image = save_model(tmp_path / "image", "image")
    code, said, complaint = run(
        "fit", image, "--data", tmp_path / "pictures", *quick, *SHORT, "--output", tmp_path / "a", "--json"
    )
    assert code == 0, complaint
    code, said, _ = run("explain", "--run", tmp_path / "a", "--input", tmp_path / "pictures", "--json")
    assert code == 0 and json.loads(said.splitlines()[0])["units"][-1] == "2,4"
    code, _, complaint = run("explain", "--run", tmp_path / "a", "a text")
    assert code == 1 and "there is no picture 'a text': this model reads images" in complaint
    (tmp_path / "text.png").write_text("no picture")
    code, _, complaint = run("explain", "--run", tmp_path / "a", tmp_path / "text.png")
    assert code == 1 and "cannot be read as a picture" in complaint and complaint.count("\n") == 1


def test_a_model_stretches_its_positions_where_the_file_of_a_run_says_so(run, quick, tmp_path):
    save_pictures(tmp_path / "pictures")
    build("ViTForImageClassification", image_size=16).save_pretrained(tmp_path / "image")
    transformers.ViTImageProcessor(size={"height": 8, "width": 8}).save_pretrained(tmp_path / "image")
    command = ["fit", tmp_path / "image", "--data", tmp_path / "pictures", *quick, *SHORT, "--output", tmp_path / "a"]
    code, _, complaint = run(*command)
    assert code == 1 and "[task] interpolate = true in the file of `diffmask fit --config`" in complaint
    (tmp_path / "run.toml").write_text("[task]\ninterpolate = true\n")
    code, _, complaint = run(*command, "--config", tmp_path / "run.toml")
    assert code == 0, complaint
    code, said, _ = run("explain", "--run", tmp_path / "a", "--input", tmp_path / "pictures", "--json")
    assert code == 0 and json.loads(said.splitlines()[0])["units"][-1] == "1,1"


def test_a_model_that_writes_apart_from_what_it_reads_is_fitted_too(run, table, quick, tmp_path):
    model, out = save_model(tmp_path / "t5", "t5"), tmp_path / "run"
    code, _, complaint = run("fit", model, "--data", table, *quick, *SHORT, "--output", out, "--json")
    assert code == 0, complaint
    code, said, _ = run("explain", "--run", out, "a funny movie", "--json")
    assert code == 0 and json.loads(said)["units"] == ["a", "fun", "##ny", "movie"]


def test_pairs_take_two_columns(run, model, table, quick, tmp_path):
    span = save_model(tmp_path / "span", "span")
    columns = ["--text-column", "second", "--pair-column", "text"]
    out = tmp_path / "my run"
    code, said, _ = run("fit", span, "--data", table, *columns, *quick, *SHORT, "--output", out)
    assert code == 0 and said.splitlines()[-1].startswith("next: diffmask explain --run '")
    assert run(*shlex.split(said.splitlines()[-1])[2:], "--json")[0] == 0  # what it says to do next can be done
    code, said, _ = run("explain", "--run", out, "--input", table, *columns, "--json")
    assert code == 0 and json.loads(said.splitlines()[0])["text"] == "a movie\na funny movie ."
    code, _, complaint = run("explain", "--run", out, "a movie")
    assert code == 1 and "give (question, passage)" in complaint and "--pair-column" in complaint
    code, _, complaint = run("fit", model, "--task", "pair", "--data", table, "--output", out)
    assert code == 2 and "task 'pair' takes two texts: name the column of the second one" in complaint


def test_a_model_of_values_decides_nothing_that_could_stay_alike(run, model, table, quick, tmp_path):
    score = save_model(tmp_path / "score", "regression")
    shown = {}
    for name, place in (("score", score), ("label", model)):
        command = ["fit", place, "--data", table, *quick, *SHORT, "--output", tmp_path / f"run-{name}"]
        assert run(*command, "--json")[0] == 0
        shown[name] = run(*command)[1], (tmp_path / f"run-{name}" / "README.md").read_text()
    assert "decides alike" in shown["label"][0] and "%" in shown["label"][1]
    assert "decides alike" not in shown["score"][0] and "✓ holds" in shown["score"][0] and "%" not in shown["score"][1]
    assert "next: diffmask explain --run" in shown["label"][0] and shown["label"][0].endswith("'…'\n")


def test_a_margin_that_is_required_and_broken_is_code_3(run, model, table, quick, tmp_path, monkeypatch):
    from diffmask.training.fit import Fit

    monkeypatch.setattr(Fit, "feasible", property(lambda self: False))
    command = ["fit", model, "--data", table, *quick, *SHORT, "--output", tmp_path / "run"]
    assert run(*command)[0] == 0
    code, _, complaint = run(*command, "--require-margin")
    assert code == 3 and "a depth breaks the margin" in complaint


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        ([], 2, "no model is named: give a directory"),
        (["MODEL"], 2, "nothing to fit to: name a table"),
        (
            ["MODEL", "--data", "TABLE", "--text-column", "body"],
            1,
            "no column 'body'; it has 'text', 'second', 'label'",
        ),
        (["MODEL", "--data", "nope.csv"], 1, "no file nope.csv"),
        (["MODEL", "--data", "TABLE", "--task", "clasification"], 2, "no task named 'clasification'; did you mean"),
        (["MODEL", "--data", "TABLE", "--task", "span", "--pair-column", "second"], 1, "was not trained for 'span'"),
        (["MODEL", "--data", "TABLE", "--recipe", "txt"], 2, "no recipe named 'txt'; did you mean 'text'"),
        (["MODEL", "--data", "TABLE", "--margin", "0"], 2, "margin must be positive"),
        (["MODEL", "--data", "TABLE", "--dtype", "int3"], 2, "no dtype named 'int3'"),
        (["MODEL", "--data", "TABLE", "--unit", "phrase"], 2, "no choice named 'phrase'"),
        (["MODEL", "--data", "TABLE", "--unit", "segment"], 2, "only Python gives: take token, word or sentence"),
        (["MODEL", "--data", "TABLE", "--config", "broken.toml"], 2, "broken.toml is no TOML"),
        (
            ["MODEL", "--data", "TABLE", "--config", "odd.toml"],
            2,
            "odd.toml.fit: no setting named 'stepz'; did you mean",
        ),
        (["MODEL", "--data", "TABLE", "--config", "top.toml"], 2, "top.toml: no setting named 'colour'"),
        (["MODEL", "--data", "TABLE", "--config", "none.toml"], 1, "no file none.toml"),
        (["./nowhere", "--data", "TABLE"], 1, "there is no directory ./nowhere"),
        (["BARE", "--data", "TABLE"], 1, "there is no tokenizer beside the model"),
        (["MODEL", "--data", "TABLE", "--output", "TABLE/run"], 1, "which is a file: name another place"),
    ],
)
def test_bad_input_is_one_sentence_with_its_code(
    run, model, bare, table, tmp_path, monkeypatch, arguments, code, complaint
):
    monkeypatch.chdir(tmp_path)
    Path("broken.toml").write_text("steps = = 3")
    Path("odd.toml").write_text("[fit]\nstepz = 3")
    Path("top.toml").write_text("colour = 3")
    named = {"MODEL": model, "BARE": bare, "TABLE": table, "TABLE/run": table / "run"}
    found, _, complained = run("fit", *(named.get(each, each) for each in arguments))
    assert found == code and complaint in complained and "Traceback" not in complained
    assert complained.strip().count("\n") == 0


def test_members_are_fitted_one_by_one_into_one_probe_that_explains(run, model, table, quick, tmp_path):
    out = tmp_path / "run"
    code, _, complaint = run("fit", model, "--data", table, *quick, *SHORT, "--members", "2", "--output", out)
    assert code == 0, complaint
    assert {"member-0", "member-1", "probe.safetensors"} <= {path.name for path in out.iterdir()}
    assert tomllib.loads((out / "run.toml").read_text())["fit"]["probe"]["members"] == 2
    code, said, complaint = run("explain", "--run", out, "a fast movie", "--json")
    assert code == 0 and json.loads(said)["verification"], complaint
    before = (out / "run.toml").read_bytes()
    command = ("fit", model, "--data", table, *quick, *SHORT, "--output", out, "--members")
    assert run(*command, "2")[0] == 0  # it is finished, and stays
    code, _, complaint = run(*command, "3")
    assert code == 1 and "finished fit with other settings (fit.probe.members differ)" in complaint.replace("\n", " ")
    (out / "diffmask.json").unlink()
    code, _, complaint = run(*command, "3")
    assert code == 1 and "unfinished" in complaint and "member-1/checkpoint.safetensors" in complaint
    assert (out / "run.toml").read_bytes() == before
    code, _, complaint = run("explain", "--run", out, "a fast movie")
    assert code == 1 and "a fit that has not ended" in complaint


def test_a_run_from_before_a_setting_was_there_goes_on(run, model, table, quick, tmp_path):
    command = ["fit", model, "--data", table, *quick, *SHORT, "--output", tmp_path / "run", "--json"]
    assert run(*command)[0] == 0
    path = tmp_path / "run" / "run.toml"
    path.write_text(path.read_text().replace("members = 1\n", ""))
    code, _, complaint = run(*command)
    assert code == 0, complaint


def test_ctrl_c_says_how_to_go_on(run, model, table, tmp_path, monkeypatch):
    def interrupted(*_arguments, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("diffmask.training.fit.fit", interrupted)
    code, _, complaint = run("fit", model, "--data", table, *SHORT, "--output", tmp_path / "run")
    assert code == common.STOPPED == 130 and "the same command goes on from there" in complaint
    monkeypatch.setattr(fit_command, "_settings", interrupted)
    code, _, complaint = run("fit", model)
    assert code == 130 and "the same command begins again" in complaint and "Traceback" not in complaint


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "a scheduler"])
def test_a_fit_that_is_stopped_and_run_again_ends_with_the_same_bits(
    run, model, table, quick, tmp_path, monkeypatch, stop
):
    options = ["--data", table, *quick, "--steps", "30", "--batch-size", "4", "--margin", "1.0", "--json"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run("fit", model, *options, "--output", whole)[0] == 0
    steps, advance = iter(range(100)), Bar.advance

    def stopped_at_the_17th(bar, total):
        advance(bar, total)
        if next(steps) == 17:
            signal.raise_signal(stop)

    monkeypatch.setattr(Bar, "advance", stopped_at_the_17th)
    code, said, complaint = run("fit", model, *options, "--output", broken)
    assert code == 130 and said == "" and "the same command goes on from there" in complaint
    assert not (broken / "diffmask.json").exists() and "Traceback" not in complaint
    assert run("fit", model, *options, "--output", broken)[0] == 0 and 30 < next(steps) < 48  # it did not begin anew
    assert (whole / "probe.safetensors").read_bytes() == (broken / "probe.safetensors").read_bytes()


@pytest.mark.slow
def test_of_several_processes_one_speaks_and_writes_what_one_alone_would(model, table, quick, tmp_path):
    env = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    probes = []
    for count in (1, 2):
        place = tmp_path / str(count)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]
        command = [*launch, "-m", "diffmask", "fit", model, "--data", table, *quick, "--output", place, "--json"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout)["run"] == str(place)  # one object, not two
        probes.append(load_file(place / "probe.safetensors"))
    for name, tensor in probes[0].items():
        torch.testing.assert_close(tensor, probes[1][name], rtol=1e-4, atol=1e-5)
