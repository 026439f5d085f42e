"""Many clients at once, as a process of its own: every answer comes, is the offline one, and memory stays flat."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diffmask.explaining.certify import certify
from diffmask.explaining.explain import explain
from diffmask.report.plain import record
from serve_answers import same

CLIENTS, REQUESTS = 200, 2000
SAID = "a dull slow film with one good joke and no plot but fine acting never boring always loud"
WORDS = SAID.split()
TEXTS = [" ".join(WORDS[(3 * start + 5 * word) % len(WORDS)] for word in range(2 + start % 9)) for start in range(50)]
SETTINGS = ({}, {"depth": 0}, {"certify": True}, {"certify": True, "margin": 0.01, "depth": 2})
ASKED = [{"text": text, **settings} for settings in SETTINGS for text in TEXTS]
HEAD = "POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
GROWTH = 24  # megabytes that 1 500 requests may add once 500 were answered


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start `diffmask serve` on a free port, and stop it as Ctrl-C does."""
    command = [sys.executable, "-m", "diffmask", "serve", "embedded", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            port = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            assert port, line + process.stderr.read()
            yield process, int(port[1])
        finally:
            process.kill()


@pytest.fixture(scope="module")
def offline(embedded) -> list[dict[str, object]]:
    found = []
    for settings in SETTINGS:
        rest = {name: value for name, value in settings.items() if name != "certify"}
        found += (certify if "certify" in settings else explain)(embedded, TEXTS, **rest)
    return [record(one, question["text"]) for one, question in zip(found, ASKED, strict=True)]


def memory(process: subprocess.Popen[str]) -> float:
    """Return the megabytes of memory a process holds."""
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return int(kilobytes) / 1024


async def client(port: int, numbers: range, answers: dict[int, tuple[int, dict[str, object]]]) -> None:
    """Ask one question after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        body = json.dumps(ASKED[number % len(ASKED)]).encode()
        writer.write(f"{HEAD}{len(body)}\r\n\r\n".encode() + body)
        said = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        content = await reader.readexactly(int(re.search(r"content-length: (\d+)", said)[1]))
        assert number not in answers
        answers[number] = int(said.split()[1]), json.loads(content)
    writer.close()


def ask_all(port: int, first: int, last: int) -> dict[int, tuple[int, dict[str, object]]]:
    answers: dict[int, tuple[int, dict[str, object]]] = {}

    async def run() -> None:
        numbers = [range(first + one, last, CLIENTS) for one in range(CLIENTS)]
        await asyncio.gather(*(client(port, mine, answers) for mine in numbers))

    asyncio.run(run())
    return answers


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_2000_requests_of_200_clients_are_all_answered_as_offline_in_flat_memory(served, offline):
    process, port = served
    answers = ask_all(port, 0, REQUESTS // 4)
    before = memory(process)
    answers |= ask_all(port, REQUESTS // 4, REQUESTS)
    grown = memory(process) - before
    assert sorted(answers) == list(range(REQUESTS))
    for number, (code, content) in answers.items():
        assert code == 200, content
        (found,) = content["explanations"]
        expected = offline[number % len(ASKED)]
        assert found["text"] == expected["text"]
        same(found, expected)
    assert grown < GROWTH, f"{grown:.0f} MB more after {REQUESTS} requests"


def test_an_interrupt_stops_it_cleanly(served):
    process, _ = served
    process.send_signal(2)
    said = process.communicate(timeout=30)
    assert process.returncode == 0 and "Traceback" not in "".join(said) and "stopped" in said[1]
