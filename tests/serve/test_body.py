"""A body is read within its bounds, in whatever parts it comes."""

import asyncio

import pytest

from diffmask.serve import body as bodies
from diffmask.serve.body import Bodies, GoneError
from diffmask.serve.limits import Limits
from diffmask.serve.refusal import Refusal

LIMITS = Limits(body=100, bodies=150, patience=0.05)


def sender(*parts: bytes, ends: bool = True, pause: float = 0.0):
    """What a server hears from a client that sends these parts and, where it never ends, nothing more."""
    left = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if ends:
        left[-1]["more_body"] = False

    async def receive():
        await asyncio.sleep(pause if left else 60)
        return left.pop(0)

    return receive


def read(held: Bodies, receive, **headers: str) -> bytes:
    return asyncio.run(held.read(headers, receive))


def test_parts_become_one_body_and_nothing_stays_held():
    held = Bodies(LIMITS)
    assert read(held, sender(b"ab", b"", b"cd")) == b"abcd" and held.held == 0


@pytest.mark.parametrize("parts", [(b"x" * 101,), (b"x" * 160,), (b"x" * 90, b"x" * 70), (b"x" * 100, b"x")])
def test_what_is_too_large_by_itself_is_never_called_too_busy(parts):
    held = Bodies(LIMITS)
    with pytest.raises(Refusal) as caught:
        read(held, sender(*parts))
    assert caught.value.status == 413 and held.held == 0


def test_a_client_that_goes_on_past_the_bound_is_heard_out_and_still_told_why(monkeypatch):
    monkeypatch.setattr(bodies, "LINGER", 0.2)
    with pytest.raises(Refusal) as caught:
        read(Bodies(LIMITS), sender(b"x" * 101, b"x", ends=False))
    assert caught.value.status == 413


def test_what_others_hold_leaves_less_room():
    held = Bodies(LIMITS)
    with held.holding(b"x" * 80), pytest.raises(Refusal) as caught:
        read(held, sender(b"x" * 80))
    assert caught.value.status == 503 and held.held == 0


def test_one_that_is_slow_is_given_up():
    with pytest.raises(Refusal) as caught:
        read(Bodies(LIMITS), sender(b"x", ends=False))
    assert caught.value.status == 408


def test_one_that_hangs_up_is_gone():
    async def receive():
        return {"type": "http.disconnect"}

    with pytest.raises(GoneError):
        read(Bodies(LIMITS), receive)


def test_what_came_before_a_client_hung_up_is_held_no_longer():
    held = Bodies(LIMITS)
    said = [{"type": "http.request", "body": b"x" * 80, "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return said.pop(0)

    with pytest.raises(GoneError):
        read(held, receive)
    assert held.held == 0
