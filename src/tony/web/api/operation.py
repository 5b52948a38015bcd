"""Definition of an API operation, its parameters and calls."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any, TypeVar, get_type_hints
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from tony.jobs.directory.view import DirectoryJobView
from tony.model.ids import TaskId
from tony.model.job_query import MAX_WORD_CHARACTERS
from tony.model.job_report import JobReport
from tony.web.authorization import User, find_job
from tony.web.job_provider import JobProvider

_NUMBER = re.compile(r"-?[0-9]{1,16}")
_DECIMAL = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,16})?([eE][+-]?[0-9]{1,3})?")
#: Default bound of numeric parameters, positive and negative.
_LARGEST_NUMBER = 10**15
#: The same message for both cases, so that it does not reveal whether a job exists.
NO_JOB = "The job does not exist, or you do not have permission to view it."

#: Media type of responses that are not JSON.
BYTES = "application/octet-stream"


class ApiError(Exception):
    """An error response.

    Attributes:
        status: HTTP status.
        code: stable identifier of the error, for programs.
        advice: what to do, one sentence; may be empty.
        headers: additional response headers.
    """

    def __init__(
        self, status: int, code: str, message: str, advice: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.code = code
        self.advice = advice
        self.headers = dict(headers or {})
        super().__init__(message)


class ParameterKind(Enum):
    """The type of a parameter."""

    TEXT = "string"
    INTEGER = "integer"
    NUMBER = "number"
    TRUTH = "truth"  #: `yes` or `no`
    TASK = "task"  #: `worker:0`
    WORDS = "words"  #: comma-separated values out of `choices`


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operation.

    Attributes:
        what: description.
        in_path: it is part of the path, not of the query.
        usual: default value.
        least, most: bounds of a number, inclusive.
        choices: allowed values; empty: any.
    """

    name: str
    what: str
    kind: ParameterKind = ParameterKind.TEXT
    _: KW_ONLY
    in_path: bool = False
    required: bool = False
    usual: Any = None
    least: int = -_LARGEST_NUMBER
    most: int = _LARGEST_NUMBER
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """Parse the parameter's value.

        Raises:
            ValueError: the text is invalid; the message says why.
        """
        if len(text) > MAX_WORD_CHARACTERS:
            raise ValueError(f"more than {MAX_WORD_CHARACTERS} characters")
        words = text.split(",") if self.kind is ParameterKind.WORDS else [text]
        if self.choices and not set(words) <= set(self.choices):
            raise ValueError(f"one of {', '.join(self.choices)} is expected")
        match self.kind:
            case ParameterKind.WORDS:
                return frozenset(words)
            case ParameterKind.TRUTH:
                if text not in ("yes", "no"):
                    raise ValueError("yes or no is expected")
                return text == "yes"
            case ParameterKind.INTEGER:
                if not _NUMBER.fullmatch(text):
                    raise ValueError("a whole number is expected")
                return self._check_bounds(int(text))
            case ParameterKind.NUMBER:
                if not _DECIMAL.fullmatch(text) or not math.isfinite(value := float(text)):
                    raise ValueError("a number is expected")
                return self._check_bounds(value)
            case ParameterKind.TASK:
                return TaskId.parse(text)
        return text

    def _check_bounds(self, value: Any) -> Any:
        if not self.least <= value <= self.most:
            raise ValueError(f"a number from {self.least} to {self.most} is expected")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCall:
    """An authenticated request for an operation.

    Attributes:
        values: of all parameters, by name.
        only: the only job served; empty if many are served.
    """

    request: Request
    portal_user: User
    provider: JobProvider
    values: Mapping[str, Any]
    only: str = ""

    async def find_job(self, name: str = "job") -> tuple[DirectoryJobView, JobReport]:
        """Return the job that a parameter names, and its report.

        Args:
            name: of the parameter.

        Raises:
            ApiError: there is no such job, or the user may not see it.
        """
        job = self.values[name]
        if self.only in ("", job) and (found := await find_job(self.portal_user, self.provider, job)):
            return found
        raise ApiError(404, "no-job", NO_JOB, "/api/v1/jobs lists the jobs that you may see.")

    def find_task(self, report: JobReport) -> str:
        """Return the task that the parameters name.

        Raises:
            ApiError: the job has no such task.
        """
        task = str(self.values["task"])
        if not any(each.task == task for each in report.tasks):
            raise ApiError(404, "no-task", f"The job has no task {task}.", "The job's report lists its tasks.")
        return task


Handler = Callable[[OperationCall], Awaitable[Any]]
H = TypeVar("H", bound=Handler)
#: Of every operation whose path has its name in braces.
_PATH_PARAMETERS = (
    Parameter("job", "the job's id", in_path=True, required=True),
    Parameter("name", "name of a log, as listed by `logs`", in_path=True, required=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An API operation.

    Attributes:
        name: unique; the OpenAPI `operationId`.
        path: below `/api/v1`, with parameters as `{job}`.
        what: description, one line.
        answer: type of the response, for the codec; None for responses of bytes.
        changes: it changes something: uses PUT, and needs a page token or an API token.
    """

    name: str
    path: str
    what: str
    handler: Handler
    answer: Any
    parameters: Sequence[Parameter]
    changes: bool

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "PUT" if self.changes else "GET"


class Operations(list[Operation]):
    """Some operations, each declared by decorating its handler with `add`."""

    def add(self, path: str, *parameters: Parameter, changes: bool = False) -> Callable[[H], H]:
        """Declare the decorated function an operation, with its name, docstring and return type."""

        def declare(handler: H) -> H:
            first, *others = handler.__name__.split("_")
            answer = get_type_hints(handler)["return"]
            operation = Operation(
                name=first + "".join(word.title() for word in others),
                path=path,
                what=handler.__doc__ or "",
                handler=handler,
                answer=None if answer is Response else answer,
                parameters=(*(each for each in _PATH_PARAMETERS if f"{{{each.name}}}" in path), *parameters),
                changes=changes,
            )
            self.append(operation)
            return handler

        return declare


def text_parameter(name: str, what: str, *choices: str) -> Parameter:
    """Return an optional parameter of text, empty by default."""
    return Parameter(name, what, usual="", choices=choices)


def number_parameter(name: str, what: str, usual: int, *, least: int = 1, most: int = _LARGEST_NUMBER) -> Parameter:
    """Return an optional parameter of a whole number."""
    return Parameter(name, what, ParameterKind.INTEGER, usual=usual, least=least, most=most)


def build_download_headers(name: str) -> dict[str, str]:
    """Return headers that make a browser save the response as a file of that name."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
