import threading
from concurrent.futures import wait

import pytest

from diffmask.serve.batching import Batcher, ClosedError, FullError


class Desk:
    """Work that writes down what it was asked, and waits for the door to open."""

    def __init__(self, is_open: bool = True) -> None:
        self.door, self.begun, self.seen = threading.Event(), threading.Event(), []
        if is_open:
            self.door.set()

    def __call__(self, settings, examples):
        self.begun.set()
        self.door.wait(10)
        self.seen.append((settings, list(examples)))
        if "bad" in examples:
            raise ValueError("bad")
        return [f"{settings}:{example}" for example in examples]


def batcher(work, most=4, wait=0.0, room=100):
    return Batcher(work, most=most, wait=wait, room=room)


@pytest.fixture
def busy():
    """A desk that holds its first job until its door opens, so that others must wait."""
    desk = Desk(is_open=False)
    with batcher(desk) as queue:
        first = queue.submit("first", ["x"])
        assert desk.begun.wait(10)
        yield desk, queue, first
        desk.door.set()


def test_each_request_gets_its_own_answers_in_order(busy):
    desk, queue, _ = busy
    jobs = [queue.submit("s", ["a", "b"]), queue.submit("s", ["c"]), queue.submit("s", ["d"])]
    desk.door.set()
    assert [job.result(10) for job in jobs] == [["s:a", "s:b"], ["s:c"], ["s:d"]]
    assert desk.seen[1:] == [("s", ["a", "b", "c", "d"])]  # of one pass


def test_requests_that_ask_differently_do_not_share_a_pass(busy):
    desk, queue, _ = busy
    jobs = [queue.submit(settings, [settings]) for settings in "ababa"]
    desk.door.set()
    wait(jobs, 10)
    assert desk.seen[1:] == [("a", ["a"] * 3), ("b", ["b"] * 2)]


def test_no_pass_has_more_examples_than_allowed_unless_one_request_has(busy):
    desk, queue, _ = busy
    jobs = [queue.submit("s", list("abc")), queue.submit("s", list("de")), queue.submit("s", list("fghijk"))]
    desk.door.set()
    wait(jobs, 10)
    assert ["".join(examples) for _, examples in desk.seen[1:]] == ["abc", "de", "fghijk"]


def test_one_bad_example_costs_only_its_own_request_the_answer(busy):
    desk, queue, _ = busy
    good, bad, fine = (queue.submit("s", [example]) for example in ("a", "bad", "c"))
    desk.door.set()
    assert (good.result(10), fine.result(10)) == (["s:a"], ["s:c"])
    with pytest.raises(ValueError, match="bad"):
        bad.result(10)


def test_what_is_given_up_while_it_waits_is_never_worked_on(busy):
    desk, queue, _ = busy
    given_up, other = queue.submit("s", ["a"]), queue.submit("t", ["b"])
    assert given_up.cancel()
    desk.door.set()
    assert other.result(10) == ["t:b"] and ("s", ["a"]) not in desk.seen


def test_a_full_queue_takes_nothing_more_and_has_room_again_later():
    desk = Desk(is_open=False)
    with batcher(desk, room=3) as queue:
        queue.submit("s", ["x"])
        assert desk.begun.wait(10)
        queue.submit("s", ["a", "b"])
        with pytest.raises(FullError):
            queue.submit("s", ["c", "d"])
        last = queue.submit("s", ["e"])
        assert queue.waiting == 3
        desk.door.set()
        assert last.result(10) == ["s:e"] and queue.waiting == 0


def test_when_it_closes_the_running_pass_is_finished_and_what_waits_is_turned_away():
    desk = Desk(is_open=False)
    with batcher(desk) as queue:
        running = queue.submit("s", ["a"])
        assert desk.begun.wait(10)
        waiting = queue.submit("t", ["b"])
        threading.Timer(0.05, desk.door.set).start()
    assert running.result(10) == ["s:a"] and not queue.alive
    with pytest.raises(ClosedError):
        waiting.result(10)
    with pytest.raises(ClosedError):
        queue.submit("s", ["c"])


def test_a_moments_wait_lets_requests_meet():
    desk = Desk()
    with batcher(desk, most=2, wait=5.0) as queue:  # a full batch does not wait
        jobs = [queue.submit("s", ["a"]), queue.submit("s", ["b"])]
        wait(jobs, 4)
    assert desk.seen == [("s", ["a", "b"])]
