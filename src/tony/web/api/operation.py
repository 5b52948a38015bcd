"""What an operation of the API is."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from starlette.requests import Request

from tony.dataclass import dataclass, field
from tony.model.ids import TaskId
from tony.model.job_query import LONGEST
from tony.model.job_report import JobReport
from tony.web.authorization import PortalUser, find_job
from tony.web.job_source import JobView, Source

_NUMBER = re.compile(r"-?[0-9]{1,16}")
_DECIMAL = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,16})?([eE][+-]?[0-9]{1,3})?")
#: The largest number, and with a minus the smallest, of a parameter without bounds of its own.
_LARGEST_NUMBER = 10**15
#: What is said of a job that is not there, and of one that the visitor may not see: nobody learns which of the two.
NO_JOB = "There is no such job here, or you may not see it."


class ApiError(Exception):
    """An answer that is none.

    Attributes:
        status: of HTTP.
        code: a stable word for programs.
        advice: what to do, one sentence; may be empty.
        headers: that belong to it.
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
    """What a parameter's text is."""

    TEXT = "string"
    INTEGER = "integer"
    NUMBER = "number"
    TRUTH = "truth"  #: `yes` or `no`
    TASK = "task"  #: `worker:0`
    WORDS = "words"  #: some of the choices, with commas between them


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A part of an address.

    Attributes:
        what: for people.
        in_path: part of the path; else it stands behind the question mark.
        usual: its value where nothing is said.
        least, most: bounds of a number, both included; None: `minimum` and `maximum` say them.
        choices: what a text, or each of its words, may be; empty for anything.
    """

    name: str
    what: str
    kind: ParameterKind = ParameterKind.TEXT
    in_path: bool = False
    required: bool = False
    usual: Any = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()

    @property
    def minimum(self) -> int:
        """The smallest number that is taken."""
        return -_LARGEST_NUMBER if self.least is None else self.least

    @property
    def maximum(self) -> int:
        """The largest number that is taken."""
        return _LARGEST_NUMBER if self.most is None else self.most

    def read(self, text: str) -> Any:
        """Its value.

        Raises:
            ValueError: the text makes no sense; says why.
        """
        if len(text) > LONGEST:
            raise ValueError(f"more than {LONGEST} characters")
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
                return self._bounded(int(text))
            case ParameterKind.NUMBER:
                if not _DECIMAL.fullmatch(text) or not math.isfinite(value := float(text)):
                    raise ValueError("a number is expected")
                return self._bounded(value)
            case ParameterKind.TASK:
                return TaskId.parse(text)
        return text

    def _bounded(self, value: Any) -> Any:
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"a number of {self.minimum} to {self.maximum} is expected")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCall:
    """One request for an operation, by somebody who was let in.

    Attributes:
        values: of the parameters, by name; each is there.
        only: the job that is served alone; empty where there are many.
    """

    request: Request
    visitor: PortalUser
    source: Source
    values: Mapping[str, Any]
    only: str = ""

    async def job(self, name: str = "job") -> tuple[JobView, JobReport]:
        """The job of the address, which the visitor may see.

        Args:
            name: of the parameter.

        Raises:
            ApiError: there is none, or not for this visitor.
        """
        job = self.values[name]
        if self.only in ("", job) and (found := await find_job(self.visitor, self.source, job)):
            return found
        raise ApiError(404, "no-job", NO_JOB, "The list of jobs has those that you may see: /api/v1/jobs.")

    def task(self, report: JobReport) -> str:
        """The task that is named.

        Raises:
            ApiError: the job has no such task.
        """
        task = str(self.values["task"])
        if not any(each.task == task for each in report.tasks):
            raise ApiError(404, "no-task", f"The job has no task {task}.", "Its report lists those that it has.")
        return task


Handler = Callable[[OperationCall], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that can be asked for.

    Attributes:
        name: unique, for programs that make functions of it.
        path: behind `/api/v1`, `{job}` and the like stand for parameters.
        what: one line for people; more of it in `details`.
        answer: type of the answer, for the codec; None for `media`.
        media: media type of an answer that is no JSON.
        changes: it changes something: only PUT, and only with a page's token or one of the visitor's own.
    """

    name: str
    path: str
    what: str
    handler: Handler
    answer: Any = None
    parameters: Sequence[Parameter] = field(default_factory=tuple)
    details: str = ""
    media: str = "application/json"
    changes: bool = False

    @property
    def method(self) -> str:
        """Of HTTP."""
        return "PUT" if self.changes else "GET"
