"""`diffmask study` from the outside, with a study that takes no time."""

import json

import pytest
from typer.testing import CliRunner

from diffmask.cli import study
from diffmask.cli.main import app


@pytest.fixture
def instead(monkeypatch):
    """Put something else in the place of the study's work."""

    def use(run):
        monkeypatch.setattr(study, "_run", run)
        monkeypatch.setattr(study, "draw_pictures", lambda path: study.say.print(f"drew {path}"))

    return use


def test_json_goes_to_standard_output_and_everything_else_aside(instead):
    instead(lambda name, setup, seeds: {"summary": {"kl": float("nan"), "seeds": seeds}})
    done = CliRunner().invoke(app, ["study", "digits", "--small", "--seeds", "2", "--json"])
    summary = {"kl": None, "seeds": 2}
    assert json.loads(done.stdout) == {"study": "digits", "output": "runs/digits.json", "summary": summary}
    assert "drew runs/digits.json" in done.stderr
    assert "drew runs/digits.json" in CliRunner().invoke(app, ["study", "digits", "--small"]).stdout


def test_ctrl_c_is_code_130_and_says_that_finished_seeds_are_kept(instead):
    def stopped(name, setup, seeds):
        raise KeyboardInterrupt

    instead(stopped)
    done = CliRunner().invoke(app, ["study", "digits", "--small"])
    assert done.exit_code == 130 and "finished seeds are kept; the same command goes on" in done.stderr
