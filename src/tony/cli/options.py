"""Arguments and options that several commands share (JOB, TASK, numbers, `--json`), and the job that they name."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tony import clock
from tony.errors import TonyError
from tony.history.job_record import record_of
from tony.jobs.job_ids import LAST, list_job_ids, resolve
from tony.jobs.state_dir import find_state_dir
from tony.model.ids import TaskId
from tony.model.state_directory import Home
from tony.name_suggestions import find_closest_match
from tony.units import parse_duration

if TYPE_CHECKING:  # older releases of click have no type argument here
    TextType = click.ParamType[str]
    NumberType = click.ParamType[float]
    IntType = click.ParamType[int]
    ChoiceType = click.Choice[str]
else:
    TextType = NumberType = IntType = click.ParamType
    ChoiceType = click.Choice

F = TypeVar("F", bound=Callable[..., Any])


def home() -> Home:
    """Return the state directory from the environment."""
    return find_state_dir(os.environ)


class JobParameter(TextType):
    """A job id, a unique part of one, a unique name, or `last`. The value is the text; `job_id` finds the job."""

    name = "job"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the job ids of the state directory, newest first."""
        try:
            ids = [LAST, *reversed(list_job_ids(home()))]
        except TonyError:
            return []
        return [CompletionItem(job_id) for job_id in ids if job_id.startswith(incomplete)]


class TaskParameter(TextType):
    """A task such as `worker:0`, or a role for all of its tasks; the value is the text."""

    name = "task"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse text that cannot be a task."""
        text = str(value)
        try:
            TaskId.parse(text if ":" in text else f"{text}:0")
        except ValueError:
            self.fail(f"{text!r} is not a task; write role:index such as worker:0, or a role", param, ctx)
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the tasks of the job on the same command line."""
        try:
            tasks = [str(task) for task in record_of(*job_id(str(ctx.params.get("job")))).spec.task_ids]
        except TonyError:
            return []
        return [CompletionItem(task) for task in tasks if task.startswith(incomplete)]


class TargetParameter(TaskParameter):
    """A port of a task: `worker:0:8888`, `worker:0`, or a role for its only task; the value is the text."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse text that cannot be a port of a task."""
        text = str(value)
        try:
            task, _ = split_target(text)
            TaskId.parse(task if ":" in task else f"{task}:0")
        except ValueError:
            self.fail(f"{text!r}: write role:index:port such as worker:0:8888, or role:index", param, ctx)
        return text


def split_target(text: str) -> tuple[str, int]:
    """Return the task or role, and the port, 0 if none is given.

    Raises:
        ValueError: it is not a port of a task.
    """
    parts = text.split(":")
    port = int(parts.pop()) if len(parts) == 3 and parts[2].isascii() and parts[2].isdigit() else 0
    if len(parts) > 2 or not 0 <= port < 2**16 or (port == 0 and text.count(":") > 1):
        raise ValueError(text)
    return ":".join(parts), port


class WordParameter(ChoiceType):
    """One of several words; the nearest is suggested for another one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse other words."""
        near = None if value in self.choices else find_closest_match(str(value), self.choices)
        if near is not None:
            self.fail(f"{value!r}; did you mean {near!r}?", param, ctx)
        return super().convert(value, param, ctx)


class Count(IntType):
    """A whole number; the value is the number.

    Args:
        least: the smallest valid number.
        most: the largest; None for no limit.
    """

    name = "number"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number and check its bounds."""
        text = str(value)
        number = int(text) if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII) else None
        if number is None or number < self._least or (self._most is not None and number > self._most):
            bounds = f"at least {self._least}" if self._most is None else f"from {self._least} to {self._most}"
            self.fail(f"{text!r}: must be a whole number, {bounds}", param, ctx)
        return number


class TimeParameter(NumberType):
    """A date, a date and time, a time of today, or how long ago (`2h`). The value is seconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the time, in the local time zone unless it names another one."""
        from datetime import datetime, time  # late: few commands have such an option

        if isinstance(value, float):
            return value
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(value).timestamp()
        with contextlib.suppress(ValueError):
            return datetime.combine(datetime.now(), time.fromisoformat(value)).timestamp()
        with contextlib.suppress(ValueError):
            return clock.wall() - parse_duration(value)
        self.fail(
            f"{value!r} is not a time; write 2026-01-31, 2026-01-31T18:00, 18:00 (today) or how long ago: 2h",
            param,
            ctx,
        )


def job_argument(function: F) -> F:
    """Add the argument JOB."""
    return click.argument("job", type=JobParameter())(function)


def tasks_argument(function: F) -> F:
    """Add the argument TASK, which may be repeated."""
    return click.argument("tasks", metavar="[TASK]...", type=TaskParameter(), nargs=-1)(function)


def task_option(function: F) -> F:
    """Add the hidden option --task, which was the only way to name a task before there was the argument."""
    return click.option("--task", "more_tasks", type=TaskParameter(), multiple=True, hidden=True)(function)


def json_option(help_text: str = "Print JSON.") -> Callable[[F], F]:
    """Add the flag --json."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def job_id(text: str) -> tuple[Home, str]:
    """Return the state directory and the full id of the job that the user named.

    Raises:
        UnknownJobError: no job matches, or several do.
    """
    place = home()
    return place, resolve(place, text)
