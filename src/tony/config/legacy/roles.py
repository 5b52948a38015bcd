"""Translates types of tasks to roles."""

from __future__ import annotations

from tony.config.checks.hints import Note
from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DEFAULTS, DraftJob, LegacyOrigin
from tony.config.legacy.flags import Flags
from tony.config.legacy.keys import RESERVED, TYPE_ENDINGS
from tony.config.legacy.settings_sources import LegacyValue
from tony.config.legacy.task_types import TENSORBOARD, LegacyTaskTypes
from tony.config.name_suggestions import suggest_names
from tony.config.table.value_format import format_name
from tony.model.placeholders import escape
from tony.units import format_exact_duration

#: Folder that the archive of an environment is unpacked to.
VENV = "venv"


def command_from_flags(draft: DraftJob, flags: Flags) -> tuple[str, LegacyOrigin] | None:
    """Return the command of types without their own: `--executes`, else tony.containers.command; None if neither."""
    if flags.executes is not None:
        words = (interpreter(flags), flags.executes, flags.task_params)
        return escape(" ".join(word for word in words if word)), LegacyOrigin("--executes")
    for name in ("task_params", "python_binary_path"):
        if getattr(flags, name) is not None:
            message = "it has no effect without --executes, as in LinkedIn TonY."
            draft.notes.append(Note(key=f"--{name}", message=message))
    return command_from_setting(draft, "tony.containers.command")


def command_from_setting(draft: DraftJob, key: str) -> tuple[str, LegacyOrigin] | None:
    """Return the command from a setting; None if it is not set."""
    value = draft.settings.get(key)
    return (escape(value.text), LegacyOrigin(value.place, key)) if value and value.text else None


def interpreter(flags: Flags) -> str | None:
    """Return the interpreter before the program: below `venv/` if there is an environment and the path is relative."""
    path = flags.python_binary_path
    if path is None or path.startswith("/") or flags.python_venv is None:
        return path
    return f"{VENV}/{path}"


def text_of(seconds: float) -> str:
    """Return a duration as in a job file, without floating-point noise."""
    return format_exact_duration(round(seconds, 6))


#: Default memory of a task.
MEMORY = "2g"
#: Endings of keys that are valid for a type without tasks.
_HARMLESS = ("instances", "max-instances")


def translate(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """Add a role to the draft for every type with tasks."""
    for name, number in types.instances.items():
        place = ("roles", name)
        given = draft.settings.get(f"tony.{name}.instances")
        draft.put((*place, "instances"), number, given or LegacyOrigin(DEFAULTS))
        if command := command_from_setting(draft, f"tony.{name}.command"):
            draft.put((*place, "command"), *command)
        _resources(draft, place, f"tony.{name}", 2 if name == TENSORBOARD and types.log_folder else 1)
        _places(draft, name)
    _report_absent_types(draft, types)


def _resources(draft: DraftJob, place: tuple[str, str], prefix: str, vcores: int) -> None:
    resources(draft, place, prefix)
    if vcores != 1 and f"{prefix}.vcores" not in {value.key for value in draft.settings}:
        draft.put((*place, "vcores"), vcores, LegacyOrigin(DEFAULTS, f"{prefix}.vcores"))


def resources(draft: DraftJob, place: tuple[str, str], prefix: str) -> None:
    """Set memory, vcores and GPUs of a role.

    Args:
        prefix: of the keys: `tony.worker`.
    """
    memory = value_parsing.format_size(draft, f"{prefix}.memory")
    given = draft.settings.get(f"{prefix}.memory")
    draft.put((*place, "memory"), memory or MEMORY, given or LegacyOrigin(DEFAULTS, f"{prefix}.memory"))
    for name, default in (("vcores", 1), ("gpus", 0)):
        if value := draft.settings.get(f"{prefix}.{name}"):
            draft.put((*place, name), value_parsing.parse_integer(draft, value.key, default), value)


def _places(draft: DraftJob, name: str) -> None:
    """Set where the tasks of a role may run."""
    place = ("roles", name)
    constrained = (
        "tony.application.placement-spec" if value_parsing.parse_text(draft, "tony.application.placement-spec") else ""
    )
    for key in (f"tony.{name}.placement-spec", "tony.containers.placement-spec"):
        if spec := value_parsing.parse_text(draft, key):
            draft.put((*place, "yarn", "placement"), spec, _value(draft, key))
            constrained = key
            break
    if label := value_parsing.parse_text(draft, f"tony.{name}.node-label"):
        value = _value(draft, f"tony.{name}.node-label")
        if constrained:
            draft.note(value, f"ignored, as in LinkedIn TonY: with {constrained} YARN uses only nodes without a label.")
        else:
            draft.put((*place, "node_label"), label, value)
    for key in (f"tony.{name}.allocation-tags", "tony.containers.allocation-tags"):
        if tags := value_parsing.parse_items(draft, key):
            draft.put_list((*place, "yarn", "placement_tags"), tags)
            break


def _value(draft: DraftJob, key: str) -> LegacyValue:
    value = draft.settings.get(key)
    assert value is not None
    return value


def _report_absent_types(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """Add a note for keys of types without tasks: the name may be misspelled."""
    noted: set[str] = set()
    for value in draft.settings:
        _, _, rest = value.key.partition("tony.")
        name, _, ending = rest.partition(".")
        missing = name not in types.instances and name not in types.absent and name not in RESERVED
        if ending in TYPE_ENDINGS and ending not in _HARMLESS and missing and name not in noted:
            noted.add(name)
            hint = suggest_names(name, types.instances, f"set tony.{format_name(name)}.instances to give it tasks.")
            draft.note(value, f"type {format_name(name)} has no tasks, so its settings have no effect; {hint}")
