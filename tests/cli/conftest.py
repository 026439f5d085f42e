import sys

import pytest

from diffmask.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process, and return code, output and complaints."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["diffmask", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code or 0, *capsys.readouterr()

    return run
