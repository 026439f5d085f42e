"""The routes: explain, health, info and the page."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from ..errors import DiffMaskError, ModelError, SiteError
from .access import Access
from .batching import ClosedError
from .guard import Guard, answer, broken
from .page import TYPES, live_entry, live_page, page_file
from .refusal import Refusal, too_busy
from .schema import Answer, Health, Info, Question, Settings, Wrong
from .service import Service

NO = {"model": Wrong}
SENTENCES = {
    400: "the body of the request cannot be read as what its Content-Type says: send JSON in UTF-8, or a whole form",
    404: "nothing is here: there are / (the page), /explain, /explain/image, /info, /health and /openapi.json",
    405: "nothing is done here by this method: POST to /explain and /explain/image, GET the rest",
}
CODES: dict[int | str, dict[str, Any]] = {
    401: {**NO, "description": "The token is missing or wrong"},
    408: {**NO, "description": "The request was sent too slowly"},
    413: {**NO, "description": "The request is too large"},
    422: {**NO, "description": "The request cannot be explained; the sentence says why"},
    503: {**NO, "description": "Too many requests are waiting; Retry-After says when to ask again"},
    504: {**NO, "description": "The answer took too long"},
}


def make_app(service: Service, access: Access | None = None) -> ASGIApp:
    """Build the application around a service that has been started."""
    app = FastAPI(
        title="diffmask",
        description="Which parts of an input a model uses, at which depth it knows that, checked by running it again.",
        docs_url=None,  # their scripts come from another site
        redoc_url=None,
    )
    _add_routes(app, service)
    _add_page(app, service)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(DiffMaskError, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _refused)
    return Guard(app, access or Access(), service.limits)


def _add_routes(app: FastAPI, service: Service) -> None:
    @app.post("/explain", response_model=Answer, responses=CODES)
    async def explain(question: Question) -> dict[str, Any]:
        """Explain a text, several, or an image in base64."""
        async with _in_time(service):
            return {"explanations": await _explained(service, question, await _examples(service, question))}

    @app.post("/explain/image", response_model=Answer, responses=CODES)
    async def explain_image(
        image: Annotated[UploadFile, File(description="An image file.")],
        settings: Annotated[str, Form(description="The other fields of /explain, as JSON.")] = "{}",
    ) -> dict[str, Any]:
        """Explain an image that is sent as a file of a form."""
        async with _in_time(service):
            examples = [await _image(service, await image.read())]
            return {"explanations": await _explained(service, _settings(settings), examples)}

    @app.get("/health", response_model=Health)
    async def health() -> dict[str, Any]:
        """Say whether the service answers."""
        return {"model": service.name, "ready": service.queue.alive, "queue": service.queue.waiting}

    @app.get("/info", response_model=Info, responses={401: CODES[401]})
    async def info() -> dict[str, Any]:
        """Describe the model, its probe and the limits."""
        return service.info()


def _add_page(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(live_page())

    @app.get("/page/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in TYPES:
            raise HTTPException(404)
        return Response(page_file(name), media_type=TYPES[name])

    @app.post("/entry", include_in_schema=False)
    async def live(question: Question) -> JSONResponse:
        """Explain one example at every depth, as the view takes it."""
        question = question.model_copy(update={"depth": "all"})
        async with _in_time(service):
            found = await _explained(service, question, await _examples(service, question))
        content = None if question.image is None else _decoded(question.image)
        async with service.decoding:
            return JSONResponse(await asyncio.to_thread(live_entry, found[0], content))


@asynccontextmanager
async def _in_time(service: Service) -> AsyncIterator[None]:
    """Give an answer up when it takes too long; what still waits for the model is then never run."""
    try:
        async with asyncio.timeout(service.limits.seconds):
            yield
    except TimeoutError:
        sentence = f"no answer within {service.limits.seconds:g} seconds: send less at once, or try again later"
        raise Refusal(504, sentence) from None


async def _examples(service: Service, question: Question) -> list[Any]:
    if question.image is not None:
        return [await _image(service, _decoded(question.image))]
    return service.texts([question.text] if question.texts is None else question.texts)


async def _image(service: Service, content: bytes) -> Any:
    async with service.decoding:
        return await asyncio.to_thread(service.image, content)


async def _explained(service: Service, given: Settings, examples: list[Any]) -> list[dict[str, Any]]:
    wanted = service.wanted(given.depth, given.verify, given.certify, given.margin)
    try:
        return await asyncio.wrap_future(service.submit(wanted, examples))
    except ClosedError:
        raise too_busy("the service is stopping: start it again") from None


def _settings(given: str) -> Settings:
    try:
        return Settings.model_validate_json(given)
    except ValidationError as error:
        raise Refusal(422, f"settings: {_sentence(error.errors())}") from None


def _decoded(image: str) -> bytes:
    """Read base64, with or without the head of a data: URL."""
    content = image.partition(",")[2] if image[:5] == "data:" else image
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(422, "image: this is not base64; encode the bytes of an image file") from None


async def _refused(request: Request, error: Exception) -> JSONResponse:
    return answer(_as_refusal(error))


def _as_refusal(error: Exception) -> Refusal:
    """Turn whatever went wrong into a status and a sentence."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, DiffMaskError):
        fault = isinstance(error, ModelError | SiteError)  # the model's, not the client's
        return Refusal(500 if fault else 422, str(error))
    if isinstance(error, RequestValidationError):
        return Refusal(422, _sentence(error.errors()))
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, SENTENCES.get(error.status_code, str(error.detail)), error.headers)
    return broken()


def _sentence(errors: Any) -> str:
    """Say where the first mistake is and what it is, without repeating what was sent."""
    first = errors[0]
    place = [part for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return 'the request is no JSON: send an object, such as {"text": "…"}'
    if not place and first["type"] != "value_error":
        return 'send a JSON object, such as {"text": "…"}, with \'Content-Type: application/json\''
    said = first["msg"].removeprefix("Value error, ")
    where = ".".join(str(part) for part in place[:1] + [part for part in place[1:] if isinstance(part, int)])
    return f"{where}: {said}" if where else said
