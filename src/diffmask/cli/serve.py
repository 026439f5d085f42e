"""`diffmask serve`: explanations over HTTP, and a page to ask for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from .common import complain, load_run, say, stoppable, usual_device
from .options import Device, ModelPlace

EXAMPLE = "Example: diffmask serve runs/mine --port 8080"
HERE = "127.0.0.1"


def serve(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="What `diffmask fit` wrote, or its name on the Hub; or embedded.")
    ],
    model: ModelPlace = None,
    device: Device = None,
    host: Annotated[str, typer.Option(help="The address to listen on; beyond this machine it takes a token.")] = HERE,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="DIFFMASK_TOKEN", help="What a client must send; made if needed and not given.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples explained at once.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="The longest a request may take.")] = None,
    characters: Annotated[int | None, typer.Option(min=1, help="The longest text.")] = None,
    pixels: Annotated[int | None, typer.Option(min=1, help="The largest image.")] = None,
    megabytes: Annotated[int | None, typer.Option(min=1, help="The largest request.")] = None,
) -> None:
    """Answer requests for explanations, and show a page to type a text or drop an image. Ctrl-C stops it."""
    from ..serve.access import rules
    from ..serve.limits import MEGABYTE, Limits
    from ..serve.run import address, bind, check_installed
    from ..serve.run import run as listen
    from ..serve.service import Service

    check_installed()
    body = None if megabytes is None else megabytes * MEGABYTE
    given = {"batch": batch_size, "seconds": seconds, "characters": characters, "pixels": pixels, "body": body}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    limits, access = replace(Limits(), **changes), rules(host, token)

    with bind(host, port) as bound:  # before the model, which takes longer to load
        with stoppable("nothing was served yet"):
            service = Service(load_run(run, model=model, device=device or usual_device()), limits)

        def ready() -> None:
            say.print(f"open {address(bound, access)}  (Ctrl-C stops)", highlight=False, markup=False, soft_wrap=True)

        try:
            listen(service, bound, access, ready)
        except KeyboardInterrupt:  # uvicorn has finished what was under way, and passes it on
            complain.print("stopped", highlight=False)
