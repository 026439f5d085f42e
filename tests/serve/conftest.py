"""A service in this process, asked without a network, and the embedded model behind it."""

import asyncio
import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx2
import pytest
import torch
from PIL import Image

from diffmask.explaining.embedded import load_embedded
from diffmask.models.adapting import adapt
from diffmask.serve.access import Access
from diffmask.serve.app import make_app
from diffmask.serve.limits import Limits
from diffmask.serve.run import bind, make_server
from diffmask.serve.service import Service
from diffmask.tasks.images import ImageClassification, PlainProcessor
from diffmask.training.config import recipe
from diffmask.training.fit import Fit, fit
from tiny_vision import build, images

Ask = Callable[..., httpx2.Response]


@pytest.fixture(scope="session")
def embedded() -> Fit:
    return load_embedded()


@pytest.fixture(scope="session")
def vision() -> Fit:
    """A probe of a tiny model that reads images; it has hardly been fitted."""
    name = "ViTForImageClassification"
    model = adapt(build(name), PlainProcessor((12, 20)))
    pixels = (images(name, 12).sigmoid() * 255).to(torch.uint8)
    task = ImageClassification(PlainProcessor((12, 20)), pixels[:8], pixels[8:], patch=model.patch, labels="abc")
    config = recipe(steps=2, batch_size=4)
    quick = replace(config.probe, baseline=replace(config.probe.baseline, ablation_steps=2))
    return fit(model, task, replace(config, probe=quick))


def picture(width: int = 40, height: int = 30, form: str = "PNG") -> bytes:
    """Return the bytes of an image file."""
    file = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(file, form)
    return file.getvalue()


@contextmanager
def asking(fitted: Fit, limits: Limits | None = None, access: Access | None = None) -> Iterator[Ask]:
    """Start a service and yield how to send it a request, or a list of them at the same time."""
    with Service(fitted, limits) as service:
        app = make_app(service, access)

        def ask(method: str, path: str, **request):
            (one,) = ask_all([(method, path, request)])
            return one

        def ask_all(requests):
            async def send():
                transport = httpx2.ASGITransport(app=app)
                async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                    return await asyncio.gather(*(client.request(how, path, **more) for how, path, more in requests))

            return asyncio.run(send())

        ask.all, ask.service = ask_all, service
        yield ask


@pytest.fixture(scope="session")
def ask(embedded: Fit) -> Iterator[Ask]:
    with asking(embedded) as ask:
        yield ask


@contextmanager
def listening(fitted: Fit, limits: Limits | None = None, access: Access | None = None) -> Iterator[tuple[str, int]]:
    """Start a real server on a free port of this machine, in a thread of this process."""
    access, service = access or Access(), Service(fitted, limits)
    with service, bind("127.0.0.1", 0) as bound:
        server = make_server(service, access)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield bound.getsockname()
        finally:
            server.should_exit = True
            thread.join(10)
    assert not thread.is_alive()


def until_closed(connection: socket.socket) -> bytes:
    """Read all that comes until the other side closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)
