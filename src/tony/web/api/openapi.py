"""Generate JSON Schema for dataclasses, as the codec encodes them, and the OpenAPI document of the operations."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from tony import __version__
from tony.model.codec import Json
from tony.model.job_query import MAX_WORD_CHARACTERS
from tony.web.api.operation import BYTES, Operation, Parameter, ParameterKind
from tony.web.api.response_types import ChangeBody, ErrorAnswer

_PLAIN: Mapping[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_TASK = r"^[A-Za-z][A-Za-z0-9_-]{0,62}:[0-9]{1,9}$"


class Schemas:
    """Generates schemas of types; each dataclass becomes a component."""

    def __init__(self) -> None:
        self.components: dict[str, Json] = {}
        self._classes: dict[str, type] = {}

    def build_schema(self, hint: Any) -> dict[str, Json]:
        """Return the schema of a type hint.

        Raises:
            TypeError: the type has no schema; the codec does not support it either.
        """
        if hint is Any or hint is object:
            return {}
        if hint in _PLAIN:
            return {"type": _PLAIN[hint]}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"enum": [member.value for member in hint]}
        if isinstance(hint, type) and hasattr(hint, "parse"):
            return {"type": "string"}
        if dataclasses.is_dataclass(hint):
            return self._build_component(hint)
        return self._build_generic(hint)

    def _build_generic(self, hint: Any) -> dict[str, Json]:
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.build_schema(arg) for arg in args]}
        if origin is list or (origin is tuple and len(args) == 2 and args[1] is Ellipsis):
            return {"type": "array", "items": self.build_schema(args[0])}
        if origin is tuple:
            items = [self.build_schema(arg) for arg in args]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.build_schema(args[1])}
        raise TypeError(f"no schema for {hint!r}")

    def _build_component(self, cls: Any) -> dict[str, Json]:
        name = cls.__name__
        if self._classes.setdefault(name, cls) is not cls:
            raise TypeError(f"two classes are named {name}")
        if name not in self.components:
            self.components[name] = {}  # ends the recursion of a class that contains itself
            hints = get_type_hints(cls)
            known = {
                field.name.removesuffix("_"): self.build_schema(hints[field.name]) for field in dataclasses.fields(cls)
            }
            self.components[name] = {
                "type": "object",
                "description": inspect.cleandoc(cls.__doc__ or ""),
                "properties": known,
                "required": sorted(known),
            }
        return {"$ref": f"#/components/schemas/{name}"}


def build_document(operations: Sequence[Operation]) -> Json:
    """Return the OpenAPI document of the operations."""
    schemas = Schemas()
    error = {
        "description": "What is wrong and how to fix it.",
        "content": _build_content(schemas.build_schema(ErrorAnswer)),
    }
    paths: dict[str, dict[str, Json]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _build_operation(operation, schemas, error)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tony",
            "version": __version__,
            "description": (
                "The data of tony's web pages. Operations that change something use PUT, and need an API token "
                "(`Authorization: Bearer`) or the page token (`page_token` of `/me`) in the request body."
            ),
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {name: schemas.components[name] for name in sorted(schemas.components)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _build_operation(each: Operation, schemas: Schemas, error: Json) -> Json:
    answers: dict[str, Json] = {
        "200": {
            "description": each.what,
            "content": _build_content(schemas.build_schema(each.answer))
            if each.answer is not None
            else {BYTES: {"schema": {"type": "string", "contentMediaType": BYTES}}},
        },
        "4XX": error,
        "5XX": error,
    }
    if not each.changes and each.answer is not None:
        answers["304"] = {"description": "Not modified: the ETag matches `If-None-Match`."}
    made: dict[str, Json] = {
        "operationId": each.name,
        "summary": each.what,
        "parameters": [_build_parameter(parameter) for parameter in each.parameters],
        "responses": answers,
    }
    if each.changes:
        schemas.build_schema(ChangeBody)
        schemas.components["ChangeBody"] |= {"required": [], "additionalProperties": False}
        body = {"$ref": "#/components/schemas/ChangeBody"}
        made["requestBody"] = {"required": False, "content": _build_content(body)}
    return made


def _build_content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _build_parameter(parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "in": "path" if parameter.in_path else "query",
        "required": parameter.required,
        "description": parameter.what,
        "schema": _build_parameter_schema(parameter),
    }


def _build_parameter_schema(parameter: Parameter) -> Json:
    schema: dict[str, Json] = {"type": "string"}
    if parameter.kind in (ParameterKind.INTEGER, ParameterKind.NUMBER):
        schema = {"type": parameter.kind.value}
        schema["minimum"], schema["maximum"] = parameter.least, parameter.most
    elif parameter.kind is ParameterKind.TRUTH:
        schema["enum"] = ["yes", "no"]
    elif parameter.kind is ParameterKind.TASK:
        schema["pattern"] = _TASK
    elif parameter.kind is ParameterKind.WORDS:
        word = f"({'|'.join(parameter.choices)})"
        schema |= {"pattern": f"^{word}(,{word})*$", "maxLength": MAX_WORD_CHARACTERS}
    elif parameter.choices:
        schema["enum"] = list(parameter.choices)
    else:
        schema |= {"minLength": 1 if parameter.required else 0, "maxLength": MAX_WORD_CHARACTERS}
    if parameter.usual not in (None, "", frozenset()):
        schema["default"] = (
            ("yes" if parameter.usual else "no") if parameter.kind is ParameterKind.TRUTH else parameter.usual
        )
    return schema
