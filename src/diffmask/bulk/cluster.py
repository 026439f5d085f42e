"""Find the Ray to work on: the one in use, one by its address, or a small one of our own on this machine."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import create_connection
from typing import Any

from ..errors import DiffMaskError

QUIET = {  # read when Ray is imported; what a user has set stays
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # where it is off, a Ray listens on the loopback address only
STORE = 256 << 20  # bytes for what travels through Ray: numbers of chunks, and a model that was given loaded
REACH, ANSWER = 5, 30  # seconds to reach an address, and to join the cluster there


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Use the Ray this process is connected to already, or connect, or start one; end what was begun here."""
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    ray = _import()
    if ray.is_initialized():
        yield ray
        return
    _start(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _import() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise DiffMaskError("the ray engine needs Ray: pip install 'diffmask[bulk]'") from error
        ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    return ray


def _start(ray: Any, address: str) -> None:
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if address == "local":
            with _loopback():
                ray.init(address="local", include_dashboard=False, object_store_memory=STORE, **quiet)
            return
        check_address(address)
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _no_answer(address, str(error).splitlines()[0]) from error


@contextmanager
def _loopback() -> Iterator[None]:
    """Let a Ray that starts here listen on the loopback address only, whenever it was imported, and no other Ray."""
    from ray._private import ray_constants as constants  # Ray reads the variable once, in the processes it starts too

    before, given = constants.ENABLE_RAY_CLUSTER, os.environ.get(ALONE)
    os.environ.setdefault(ALONE, "0")
    constants.ENABLE_RAY_CLUSTER = os.environ[ALONE].lower() in ("1", "true")
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
        if given is None:
            del os.environ[ALONE]


def check_address(address: str) -> None:
    """Refuse an address where no Ray answers: joining it in this process could hang for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        try:
            create_connection((host.strip("[]") or "localhost", int(port)), timeout=REACH).close()
        except OSError as error:
            raise _no_answer(address, str(error)) from error
    code = f"import ray, os; ray.init(address={address!r}, log_to_driver=False); os._exit(0)"
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, timeout=ANSWER)
        if done.returncode == 0:
            return
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _no_answer(address, said[-1] if said else "it gave no reason")
    raise _no_answer(address, f"nothing came back in {ANSWER} s")


def _no_answer(address: str, why: str) -> DiffMaskError:
    return DiffMaskError(
        f"no Ray cluster answers at {address} ({why.strip()}): check it with `ray status --address {address}`, "
        "or leave it out to start Ray on this machine"
    )
