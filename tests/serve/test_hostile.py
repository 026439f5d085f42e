"""A real server on this machine, and clients that mean it no good: each gets a 4xx, and the next one an answer."""

import json
import socket
import threading
import time

import httpx2
import pytest

from diffmask.errors import DiffMaskError, SettingError
from diffmask.serve.limits import Limits
from diffmask.serve.run import bind

from .conftest import listening, until_closed

LIMITS = Limits(body=100_000, bodies=150_000, patience=1.0, characters=1000, connections=40)


@pytest.fixture(scope="module")
def place(embedded):
    with listening(embedded, LIMITS) as place:
        yield place


@pytest.fixture(autouse=True)
def still_serving(place):
    """Whatever a test did, the next client gets its answer."""
    yield
    answer = httpx2.post(f"http://{place[0]}:{place[1]}/explain", json={"text": "Good film."}, timeout=20)
    assert answer.status_code == 200


def send(place, *parts: bytes, wait: float = 0.0) -> bytes:
    """Send parts with a pause before each but the first, and read until the server closes."""
    with socket.create_connection(place, timeout=10) as connection:
        for number, part in enumerate(parts):
            time.sleep(wait if number else 0)
            try:
                connection.sendall(part)
            except OSError:
                break
        try:
            return until_closed(connection)
        except ConnectionResetError:
            return b""


def head(**headers: object) -> bytes:
    lines = ["POST /explain HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_a_body_that_says_it_is_huge_is_refused(place):
    answer = send(place, head(Content_Length=10**12), b"x" * 1000)
    assert b" 413 " in answer.split(b"\r\n")[0] and b"larger than the 100,000 bytes" in answer


def test_a_huge_body_is_refused_and_its_sender_gets_to_read_why(place):
    answer = httpx2.post(f"http://{place[0]}:{place[1]}/explain", content=b"x" * 5_000_000, timeout=10)
    assert answer.status_code == 413


def test_a_body_without_a_length_is_counted_as_it_comes(place):
    def endless():
        for _ in range(100):
            yield b"x" * 10_000

    answer = httpx2.post(f"http://{place[0]}:{place[1]}/explain", content=endless(), timeout=10)
    assert answer.status_code == 413


@pytest.mark.parametrize("wait", [0.3, 5.0])
def test_a_body_that_comes_slowly_is_given_up(place, wait):
    began = time.monotonic()
    parts = [b'{"text":', *[b" "] * 9] if wait < 1 else [b'{"text":']
    answer = send(place, head(Content_Length=500), *parts, wait=min(wait, 0.3))
    assert b" 408 " in answer.split(b"\r\n")[0] and b"not whole after 1 seconds" in answer
    assert time.monotonic() - began < 8


@pytest.mark.parametrize("first", [b"", b"POST /expl", head()[:-2]])
def test_a_head_that_never_ends_is_cut_off(place, first):
    began = time.monotonic()
    assert b" 200 " not in send(place, first, *[b"a"] * 6, wait=0.25)
    assert time.monotonic() - began < 6


def test_a_second_head_on_the_same_connection_has_no_more_time(place):
    whole = b'{"text": "good"}'
    with socket.create_connection(place, timeout=10) as connection:
        connection.sendall(head(Content_Length=len(whole)) + whole)
        assert b" 200 " in connection.recv(65536)
        connection.sendall(b"POST /explain HT")
        began = time.monotonic()
        until_closed(connection)
    assert time.monotonic() - began < 8


def test_a_client_that_hangs_up_costs_nothing(place):
    for part in (head(Content_Length=500), head(Content_Length=16) + b'{"text": "good"}'):
        with socket.create_connection(place) as connection:
            connection.sendall(part)


@pytest.mark.parametrize("line", [b"\x16\x03\x01\x02", b"GET", b"GET / HTTP/9.9\r\n\r\n", b"A" * 200_000])
def test_what_is_no_http_is_refused(place, line):
    assert b" 200 " not in send(place, line + b"\r\n\r\n")


def test_many_large_bodies_at_once_are_not_all_held(place):
    with httpx2.Client() as client:
        open_ones = [socket.create_connection(place, timeout=10) for _ in range(3)]
        for connection in open_ones:
            connection.sendall(head(Content_Length=90_000) + b" " * 80_000)
        time.sleep(0.3)
        heads = []
        for connection in open_ones:
            heads.append(until_closed(connection).split(b"\r\n")[0])
            connection.close()
        assert any(b" 503 " in each for each in heads) and any(b" 408 " in each for each in heads)
        assert client.get(f"http://{place[0]}:{place[1]}/health").status_code == 200


def test_bad_json_and_wrong_types_get_4xx_over_the_wire(place):
    url = f"http://{place[0]}:{place[1]}/explain"
    for content in (b"{", b"[" * 50_000, b"null", b'{"text": 1}', json.dumps({"text": "x" * 1001}).encode()):
        answer = httpx2.post(url, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422) and "error" in answer.json() and "Traceback" not in answer.text


def test_more_connections_than_allowed_are_turned_away_not_queued(place):
    held = [socket.create_connection(place) for _ in range(LIMITS.connections)]
    time.sleep(0.2)
    answer = httpx2.get(f"http://{place[0]}:{place[1]}/health")
    for connection in held:
        connection.close()
    time.sleep(0.2)
    assert answer.status_code == 503


def test_a_port_in_use_is_one_sentence(place):
    with pytest.raises(DiffMaskError, match=rf"port {place[1]} of 127.0.0.1 cannot be used .*choose another"):
        bind(*place)
    with pytest.raises(SettingError, match="no address of this machine"):
        bind("no.such.host.invalid", 0)


def test_threads_end_with_the_server(embedded):
    before = threading.active_count()
    with listening(embedded):
        assert threading.active_count() > before
    assert threading.active_count() == before
