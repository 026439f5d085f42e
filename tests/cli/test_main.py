import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import diffmask as diffmask_package
from diffmask.cli.main import app
from diffmask.studies import STUDIES

COMMANDS = ["fit", "explain", "compare", "demo", "report", "serve", "study", "draw", "tables", "list"]


def diffmask(*arguments):
    """Run the command line as a person does, and return exit code, output and complaints."""
    done = subprocess.run([sys.executable, "-m", "diffmask", *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_an_unknown_study_is_a_usage_error_with_a_suggestion():
    code, _, complaint = diffmask("study", "digit")
    assert code == 2
    known = ", ".join(STUDIES.names)
    assert complaint.strip() == f"diffmask: no study named 'digit'; did you mean 'digits'? Known: {known}"


def test_a_missing_result_file_is_one_sentence_and_no_traceback(tmp_path):
    code, _, complaint = diffmask("draw", str(tmp_path / "nope.json"))
    assert code == 1
    assert "no result file" in complaint and "Traceback" not in complaint


def test_a_wrong_option_is_a_usage_error():
    code, _, complaint = diffmask("study", "digits", "--seeds", "0")
    assert code == 2 and "Traceback" not in complaint


def test_a_missing_markdown_file_is_one_sentence(tmp_path):
    code, _, complaint = diffmask("tables", str(tmp_path / "nope.md"))
    assert code == 1 and "nope.md" in complaint and "Traceback" not in complaint


def test_the_version_is_that_of_the_package():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0 and result.output == f"diffmask {diffmask_package.__version__}\n"


def test_list_names_studies_methods_and_recipes():
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code == 0
    assert ", digits, " in result.output and "recipe: default, text, " in result.output


def test_list_as_json_has_names_by_kind():
    found = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)
    assert found["study"] == list(STUDIES.names) and "text" in found["recipe"] and "span" in found["task"]


def test_every_command_there_is_has_its_example_tested():
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_has_a_worked_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0 and "Example: diffmask" in result.output


def test_tables_check_fails_on_a_stale_table_and_changes_nothing(tmp_path):
    row = {"method": "uniform", "depth": 1, "kl": 0.65, "js": 0.19}
    result = {"study": "digits", "command": "x", "seeds": [0], "good": 0.04, "summary": {}, "rows": [row]}
    (tmp_path / "d.json").write_text(json.dumps(result))
    page = tmp_path / "page.md"
    page.write_text("<!-- table: d.json -->\nstale\n<!-- end -->\n")
    assert diffmask("tables", "--check", str(page))[0] == 1
    assert "stale" in page.read_text()
    assert diffmask("tables", str(page))[0] == 0
    assert diffmask("tables", "--check", str(page))[0] == 0


@pytest.mark.parametrize("content", [b'{"study": "digits"}', b"\xff\xfe\x00", b"{}"])
def test_a_file_that_is_no_result_is_one_sentence(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    for arguments in (["draw", str(path)], ["tables", str(path)] if content[0] > 127 else ["draw", str(path)]):
        code, _, complaint = diffmask(*arguments)
        assert code == 1 and "Traceback" not in complaint and complaint.count("\n") <= 2
