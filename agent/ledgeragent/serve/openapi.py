"""The sidecar's OpenAPI document, made of the models it reads and answers with.

`python -m ledgeragent.serve.openapi` prints it; docs/sidecar.openapi.json is what it printed, and a test holds that.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ledgeragent import __version__
from ledgeragent.compile import pretty
from ledgeragent.serve.bodies import Alive, Closed, OpenSession, Readiness, Refused, SessionShown
from ledgeragent.serve.operations import LEDGER, OPERATIONS, SHOW, Operation
from ledgeragent.serve.refusals import CODES

_SCHEMAS: Final = "#/components/schemas/"
_SESSION: Final = {"name": "session", "in": "path", "required": True, "schema": {"type": "string"}}
_VERSION: Final = {
    "name": "Ledgeragent-Version",
    "in": "header",
    "required": False,
    "description": "The newest `version` the client saw of this session; of use only where sessions are stored.",
    "schema": {"type": "string"},
}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A random name for this request. Sent again with the same body it gets the same answer, as long as "
    "this process remembers; with another body it is refused.",
    "schema": {"type": "string", "maxLength": 200},
}


def document() -> dict[str, Any]:
    """The document, OpenAPI 3.1."""
    operations = (*OPERATIONS.values(), SHOW, LEDGER)
    models: set[type[BaseModel]] = {Alive, Closed, OpenSession, Readiness, Refused}
    models |= {one.answered for one in operations} | {one.asked for one in OPERATIONS.values()}
    _, schemas = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)],
        ref_template=_SCHEMAS + "{model}",
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "LedgerAgent sidecar",
            "version": __version__,
            "description": "Sessions of a gated agent: reads fill the ledger, writes are reviewed, a ticket runs one "
            "write once. Contract ledgeragent.sidecar/1; docs/sidecar.md explains it.",
        },
        "paths": _paths(),
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"refused": {"description": _refused_words(), "content": _json(Refused)}},
        },
    }


def _paths() -> dict[str, Any]:
    one = "/v1/sessions/{session}"
    paths: dict[str, Any] = {
        "/health": {"get": _open_to_all("health", Alive, {"200": Alive})},
        "/ready": {"get": _open_to_all("ready", Readiness, {"200": Readiness, "503": Readiness})},
        "/v1/sessions": {"post": _operation("open", OpenSession, SessionShown, [], status="201")},
        one: {
            "get": _operation("show", None, SessionShown, [_SESSION, _VERSION], about=SHOW),
            "delete": _operation("close", None, Closed, [_SESSION, _VERSION]),
        },
        f"{one}/ledger": {"get": _operation("ledger", None, LEDGER.answered, [_SESSION, _VERSION])},
    }
    for name, operation in OPERATIONS.items():
        paths[f"{one}/{name}"] = {
            "post": _operation(name, operation.asked, operation.answered, [_SESSION, _VERSION, _KEY])
        }
    return paths


def _open_to_all(name: str, model: type[BaseModel], answers: dict[str, type[BaseModel]]) -> dict[str, Any]:
    responses = {status: {"description": _said(one), "content": _json(one)} for status, one in answers.items()}
    return {"operationId": name, "summary": _said(model), "responses": responses, "security": []}


def _operation(
    name: str,
    asked: type[BaseModel] | None,
    answered: type[BaseModel],
    parameters: list[dict[str, Any]],
    *,
    status: str = "200",
    about: Operation | None = None,
) -> dict[str, Any]:
    words = about.run.__doc__ if about is not None else None
    made: dict[str, Any] = {
        "operationId": name,
        "summary": words or _said(asked or answered),
        "parameters": parameters,
        "responses": {
            status: {"description": _said(answered), "content": _json(answered)},
            "default": {"$ref": "#/components/responses/refused"},
        },
        "security": [{"token": []}],
    }
    if asked is not None:
        made["requestBody"] = {"required": True, "content": _json(asked)}
    return made


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _SCHEMAS + model.__name__}}}


def _said(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or model.__name__).split())


def _refused_words() -> str:
    return "Nothing was done, or it is not known: " + ", ".join(f"{code} ({status})" for code, status in CODES.items())


if __name__ == "__main__":
    print(pretty(document()), end="")  # noqa: T201
