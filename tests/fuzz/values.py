"""Proper values of everything that is sent or written down, made from type hints: what fuzzers begin with."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from tests.protocol.message_classes import MESSAGE_CLASSES
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.events import EVENTS
from tony.history.event_log import Header
from tony.jobs.am_client import AmLocation
from tony.model.codec import Json, to_plain
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.submission_record import JobRecord
from tony.protocol.launch import JobCredentials, LaunchContext

#: Whatever is read from elsewhere.
CLASSES: tuple[type[Any], ...] = (
    *MESSAGE_CLASSES,
    *EVENTS.values(),
    LaunchContext,
    JobCredentials,
    JobRecord,
    JobReport,
    JobHead,
    Header,
    AmLocation,
)

_SCALARS: Mapping[Any, Any] = {
    Any: {"a": [1, "b", None]},
    str: "x",
    int: 1,
    bool: True,
    float: 0.5,
    type(None): None,
    TaskId: TaskId("worker", 0),
    Deadline: Deadline(DeadlineKind.EXECUTION, TaskId("worker", 0)),
}


_MADE: dict[str, Json] = {}


def plain_of(cls: type[Any]) -> Json:
    """One value of a class, no part of it left out, as plain JSON values. Not to be changed."""
    if cls.__name__ not in _MADE:
        _MADE[cls.__name__] = to_plain(_value(cls))
    return _MADE[cls.__name__]


def _value(hint: Any) -> Any:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        cls: Any = hint
        return cls(**{field.name: _value(hints[field.name]) for field in dataclasses.fields(hint)})
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _value(args[0])
    if origin is tuple and args[-1] is Ellipsis:
        return (_value(args[0]),)
    if origin is tuple:
        return tuple(_value(arg) for arg in args)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_value(args[0]): _value(args[1])}
    raise TypeError(f"no value for {hint!r}")
