"""Listen on a port until told to stop."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DiffMaskError, SettingError
from .access import Access
from .service import Service

GRACE = 5  # seconds requests that are under way have when the service stops


def bind(host: str, port: int) -> socket.socket:
    """Take a port, or any free one for port 0; say in one sentence why that cannot be."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, proto)
    except OSError as error:
        raise SettingError(f"'{host}' is no address of this machine ({error}): use 127.0.0.1, or 0.0.0.0") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(socket.SOMAXCONN)
    except OSError as error:
        bound.close()
        raise DiffMaskError(
            f"port {port} of {host} cannot be used ({error.strerror}): choose another with --port, or 0 for a free one"
        ) from error
    return bound


def address(bound: socket.socket, access: Access) -> str:
    """Return the address of the page; a token stands where a browser does not send it on."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    home = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    return home if access.token is None else f"{home}#token={access.token}"


def run(service: Service, bound: socket.socket, access: Access, ready: Callable[[], None] = lambda: None) -> None:
    """Answer requests until an interrupt; `ready` is called when the model's thread is there."""
    server = make_server(service, access)
    with service, bound, _quiet_about_texts():
        ready()
        server.run(sockets=[bound])


@contextmanager
def _quiet_about_texts() -> Iterator[None]:
    """Keep texts out of the log: what is cut off of one is said in its answer."""
    log = logging.getLogger("diffmask.tasks")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def make_server(service: Service, access: Access) -> Any:
    """Build the server, with the limits that the application cannot set."""
    import uvicorn

    from .app import make_app
    from .patience import patient_for

    config = uvicorn.Config(
        make_app(service, access),
        http=patient_for(service.limits.patience),
        ws="none",
        lifespan="off",
        limit_concurrency=service.limits.connections,
        timeout_graceful_shutdown=GRACE,
        server_header=False,
        proxy_headers=False,
        access_log=False,
        log_level="warning",
    )
    return uvicorn.Server(config)


def check_installed() -> None:
    """Say what to install, before anything that takes long."""
    try:
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise DiffMaskError(f"serving needs more than is installed ({error}): pip install 'diffmask[serve]'") from error
