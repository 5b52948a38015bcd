"""Checks the limits of LinkedIn TonY's settings.

LinkedIn TonY also treats `max-total-instances` as a limit of a resource called `instances`, and compares it with the
sum of squares. Here it limits the number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.role_kinds import LegacyTaskTypes
from tony.model.job_spec import MIB
from tony.units import parse_size

_TOTAL = "tony.task.max-total-"
_REMEDY = "Request less, or raise the limit."


def check(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """Report every limit that the job exceeds; defaults of tasks count as well."""
    roles: dict[str, Any] = draft.values.get("roles", {})
    for name, number in types.instances.items():
        most = value_parsing.parse_integer(draft, f"tony.{name}.max-instances", -1)
        value = draft.settings.get(f"tony.{name}.max-instances")
        if value and 0 <= most < number:
            draft.add_error(value, f"the job requests {number} tasks of type {name}, and this allows {most}. {_REMEDY}")
    for what, unit, of_task in _TOTALS:
        value = draft.settings.get(f"{_TOTAL}{what}")
        most = value_parsing.parse_integer(draft, f"{_TOTAL}{what}", -1)
        shares = [(name, number, of_task(roles.get(name, {}))) for name, number in types.instances.items()]
        total = sum(number * each for _, number, each in shares)
        if value and 0 <= most < total:
            sums = " + ".join(f"{name} {number} × {each}" for name, number, each in shares if each)
            parts = f" ({sums})" if what != "instances" else ""
            draft.add_error(value, f"the job requests {total} {unit}{parts}, and this allows {most}. {_REMEDY}")


def _mebibytes(role: dict[str, Any]) -> int:
    return parse_size(role.get("memory", "0b")) // MIB


_TOTALS: tuple[tuple[str, str, Callable[[dict[str, Any]], int]], ...] = (
    ("instances", "tasks", lambda role: 1),
    ("memory", "MiB", _mebibytes),
    ("vcores", "vcores", lambda role: int(role.get("vcores", 1))),
    ("gpus", "GPUs", lambda role: int(role.get("gpus", 0))),
)
