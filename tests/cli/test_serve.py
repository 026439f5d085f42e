import io
import socket
import sys

import pytest
from PIL import Image

from diffmask.cli import main as command
from diffmask.explaining.explain import explain
from diffmask.models.adapting import adapt
from diffmask.models.hub import fetch
from diffmask.models.pretrained import load_model, load_processor
from diffmask.report.plain import record
from diffmask.serve import run as running
from diffmask.serve.access import Access
from diffmask.tasks.described import make_task
from diffmask.training.fit import fit
from saved_models import TEXTS, save_model, short
from serve_answers import same


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process with a server that stops at once, and return code, output and complaints."""
    served = {}

    def listen(service, bound, access, ready):
        ready()
        served.update(service=service, access=access, address=bound.getsockname())
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run", listen)
    monkeypatch.delenv("DIFFMASK_TOKEN", raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["diffmask", "serve", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            command.main()
        return done.value.code or 0, *capsys.readouterr()

    run.served = served
    return run


def test_it_says_where_the_page_is_and_stops_when_interrupted(run):
    code, said, complaint = run("embedded", "--port", 0)
    port = run.served["address"][1]
    assert code == 0 and said == f"open http://127.0.0.1:{port}/  (Ctrl-C stops)\n" and "stopped" in complaint
    assert run.served["access"] == Access(local=True, token=None)


def test_beyond_this_machine_a_token_is_made_and_shown(run):
    code, said, _ = run("embedded", "--port", 0, "--host", "0.0.0.0")
    token = run.served["access"].token
    assert code == 0 and not run.served["access"].local and said.split()[1].endswith(f"/#token={token}")


def test_token_and_limits_are_taken(run, monkeypatch):
    monkeypatch.setenv("DIFFMASK_TOKEN", "0123456789abcdef")
    options = ("--batch-size", 5, "--seconds", 2, "--characters", 99, "--pixels", 1000, "--megabytes", 3)
    assert run("embedded:hidden", "--port", 0, *options)[0] == 0
    limits = run.served["service"].limits
    assert (limits.batch, limits.seconds, limits.characters, limits.pixels) == (5, 2.0, 99, 1000)
    assert limits.body == 3 << 20 and run.served["access"].token == "0123456789abcdef"
    assert run.served["service"].info()["kind"] == "hidden"


def test_a_port_in_use_is_one_sentence(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, complaint = run("embedded", "--port", taken.getsockname()[1])
    assert code == 1 and "cannot be used" in complaint and "--port" in complaint and complaint.count("\n") == 1


@pytest.mark.parametrize("name", ["no/such/place/here", "."])
def test_what_is_no_run_is_one_sentence(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, _, complaint = run(name, "--port", 0)
    assert code == 1 and complaint.startswith("diffmask: ") and complaint.count("\n") == 1


@pytest.mark.parametrize("options", [["--port", 70000], ["--batch-size", 0], []])
def test_wrong_usage_has_code_2(run, options):
    assert run(*(["embedded", *options] if options else []))[0] == 2


def test_a_short_token_is_refused(run):
    code, _, complaint = run("embedded", "--token", "short")
    assert code == 2 and "at least 16" in complaint


def test_what_is_not_installed_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, complaint = run("embedded")
    assert code == 1 and "pip install 'diffmask[serve]'" in complaint


@pytest.mark.parametrize("kind", ["classification", "image", "span"])
def test_a_saved_run_is_served_as_it_explains(run, tmp_path, kind):
    saved = save_model(tmp_path / "model", kind)
    model, processor = load_model(fetch(saved), kind), load_processor(fetch(saved), kind)
    adapted = adapt(model, processor)
    images = [Image.new("RGB", (30, 20), colour) for colour in ("red", "blue")]
    examples = {"image": images, "span": [("a movie", text) for text in TEXTS]}.get(kind, TEXTS)
    settings = {"patch": adapted.patch} if kind == "image" else {}
    task = make_task({"kind": kind, "settings": settings}, processor, examples, examples)
    fitted = fit(adapted, task, short())
    fitted.save_pretrained(tmp_path / "run")
    assert run(tmp_path / "run", "--port", 0)[0] == 0
    with run.served["service"] as service:
        assert (service.takes, service.info()["pairs"]) == ("image" if kind == "image" else "text", kind == "span")
        if kind == "image":
            file = io.BytesIO()
            images[0].save(file, "PNG")
            given = [service.image(file.getvalue())]
        else:
            given = service.texts(examples[:1])
        (found,) = service.submit(service.wanted(-1, True, False, None), given).result(20)
    same(found, record(explain(fitted, examples[:1])[0], ""))
