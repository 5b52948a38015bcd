"""Checks of a translated job: settings without effect, unknown settings, and limits.

LinkedIn TonY also treats `max-total-instances` as a limit of a resource called `instances`, and compares it with the
sum of squares. Here it limits the number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tony.config.checks.notes import Note
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.flags import Flags
from tony.config.legacy.keys import KEYS, RESERVED, TYPE_ENDINGS, row_of
from tony.config.legacy.settings_sources import DEFAULT_FILE, LegacyValue, is_there
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.table.value_format import format_name
from tony.model.job_spec import MIB
from tony.name_suggestions import find_closest_match
from tony.units import format_first, parse_size

_MAX_NAMES = 5
#: Unknown settings for which the nearest one is suggested: that takes some milliseconds each.
_MAX_SUGGESTIONS = 20
_NO_SUGGESTION = "LinkedIn TonY has none with a similar name."
_TOTAL = "tony.task.max-total-"
_REMEDY = "Request less, or raise the limit."


def check_names(draft: DraftJob) -> None:
    """Add a note for each setting that is no longer needed, and an error for each unknown one."""
    foreign = []
    for value in draft.settings:
        row = row_of(value.key)
        if not value.key.startswith("tony."):
            foreign.append(value)
        elif row is None:
            hint = _hint(draft, value) if len(draft.problems) < _MAX_SUGGESTIONS else _NO_SUGGESTION
            draft.add_error(value, f"unknown setting; {hint}")
        elif row.obsolete:
            draft.note(value, f"has no effect. {row.obsolete}")
    if foreign:
        names = format_first([format_name(value.key) for value in foreign], _MAX_NAMES)
        message = f"settings that do not begin with `tony.` are ignored: {names}."
        draft.notes.append(Note(key=format_name(foreign[0].key), message=message, source=foreign[0].place))


def _hint(draft: DraftJob, value: LegacyValue) -> str:
    _, _, rest = value.key.partition(".")
    name, _, ending = rest.partition(".")
    types = {setting.key.split(".")[1] for setting in draft.settings if setting.key.endswith(".instances")} - RESERVED
    if name in types:
        near = find_closest_match(ending, TYPE_ENDINGS)
        near = near and f"tony.{name}.{near}"
    else:
        # Compare without the common prefix, which would make all keys similar.
        known = [row.name.removeprefix("tony.") for row in KEYS if "<" not in row.name]
        near_ending = find_closest_match(ending, TYPE_ENDINGS) if ending and name not in RESERVED else None
        near = find_closest_match(rest, [*known, *([f"{name}.{near_ending}"] if near_ending else [])])
        near = near and f"tony.{near}"
    if near == value.key:
        return f"{format_name(name)} cannot be a type."
    return f"did you mean `{format_name(near)}`?" if near else _NO_SUGGESTION


def check_limits(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """Report every limit that the job exceeds; defaults of tasks count as well."""
    roles: dict[str, Any] = draft.values.get("roles", {})
    for name, number in types.instances.items():
        most = draft.read_integer(f"tony.{name}.max-instances", -1)
        value = draft.settings.get(f"tony.{name}.max-instances")
        if value and 0 <= most < number:
            draft.add_error(value, f"the job requests {number} tasks of type {name}, and this allows {most}. {_REMEDY}")
    for what, unit, of_task in _TOTALS:
        value = draft.settings.get(f"{_TOTAL}{what}")
        most = draft.read_integer(f"{_TOTAL}{what}", -1)
        shares = [(name, number, of_task(roles.get(name, {}))) for name, number in types.instances.items()]
        total = sum(number * each for _, number, each in shares)
        if value and 0 <= most < total:
            sums = " + ".join(f"{name} {number} × {each}" for name, number, each in shares if each)
            parts = f" ({sums})" if what != "instances" else ""
            draft.add_error(value, f"the job requests {total} {unit}{parts}, and this allows {most}. {_REMEDY}")


def check_settings_file(draft: DraftJob, flags: Flags, types: LegacyTaskTypes, cwd: Path) -> None:
    """Note that a single program will run, which is seldom meant: `tony.xml` is usually next to the source folder."""
    if not types.single or draft.settings.file is not None:
        return
    default_file = Path(flags.src_dir or ".").parent / DEFAULT_FILE
    found = f" Did you mean --conf_file {format_name(str(default_file))}?" if is_there(cwd / default_file) else ""
    message = (
        f"there is no {DEFAULT_FILE} here and no --conf_file, so no number of tasks is set: the program runs as "
        f"a single task.{found}"
    )
    draft.notes.append(Note(key="", message=message))


def _mebibytes(role: dict[str, Any]) -> int:
    return parse_size(role.get("memory", "0b")) // MIB


_TOTALS: tuple[tuple[str, str, Callable[[dict[str, Any]], int]], ...] = (
    ("instances", "tasks", lambda role: 1),
    ("memory", "MiB", _mebibytes),
    ("vcores", "vcores", lambda role: int(role.get("vcores", 1))),
    ("gpus", "GPUs", lambda role: int(role.get("gpus", 0))),
)
