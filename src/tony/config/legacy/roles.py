"""Translates types of tasks to roles, and adds those that LinkedIn TonY makes itself.

Itself it makes a single program, a preprocessing run, a TensorBoard sidecar.
"""

from __future__ import annotations

from tony.config.checks.notes import Note
from tony.config.legacy import file_settings
from tony.config.legacy.draft_job import DEFAULTS, DraftJob, LegacyItem, LegacyOrigin
from tony.config.legacy.flags import VENV, Flags
from tony.config.legacy.keys import RESERVED, TYPE_ENDINGS
from tony.config.legacy.task_types import (
    LOG_FOLDER,
    MAIN_ROLE,
    PREPROCESS,
    PREPROCESS_ROLE,
    TENSORBOARD,
    LegacyTaskTypes,
    translate_rules,
)
from tony.config.table.settings_table import Key
from tony.config.table.value_format import format_name
from tony.model.placeholders import escape
from tony.name_suggestions import suggest_names

#: Default memory of a task.
_MEMORY = "2g"
#: Endings of keys that are valid for a type without tasks.
_HARMLESS = ("instances", "max-instances")
#: Text that the preprocessing run prints before the value for all tasks.
_EXPORT_PREFIX = "Model parameters: "
#: On a cluster `main:0` has this HOME anyway.
_HOME = 'export HOME="$PWD"; '


def translate(draft: DraftJob, flags: Flags, types: LegacyTaskTypes) -> None:
    """Add the roles to the draft."""
    for name, number in types.instances.items():
        place = ("roles", name)
        draft.put((*place, "instances"), number, draft.origin(f"tony.{name}.instances"))
        if command := _read_command(draft, f"tony.{name}.command"):
            draft.put((*place, "command"), *command)
        _resources(draft, place, f"tony.{name}")
        _places(draft, name)
    _report_absent_types(draft, types)
    translate_rules(draft, types)
    if types.am_role:
        _add_am_program(draft, types.am_role)
    else:
        for key in ("tony.am.command", "tony.am.resources", "tony.am.gpus"):
            draft.note_key(key, "it has an effect only if the application master would run the program itself.")
    if types.log_folder and TENSORBOARD in types.instances:
        _tensorboard(draft, flags, types.log_folder)
    elif types.log_folder:
        draft.note_key(LOG_FOLDER, "a TensorBoard runs only if other types have tasks.")


def command_from_flags(draft: DraftJob, flags: Flags) -> LegacyItem | None:
    """Return the command of types without their own: `--executes`, else tony.containers.command; None if neither."""
    if flags.executes is not None:
        words = (_interpreter(flags), flags.executes, flags.task_params)
        return escape(" ".join(word for word in words if word)), LegacyOrigin("--executes")
    for name in ("task_params", "python_binary_path"):
        if getattr(flags, name) is not None:
            message = "it has no effect without --executes, as in LinkedIn TonY."
            draft.notes.append(Note(key=f"--{name}", message=message))
    return _read_command(draft, "tony.containers.command")


def _read_command(draft: DraftJob, key: str) -> LegacyItem | None:
    text = draft.read_text(key)
    return (escape(text), draft.origin(key)) if text else None


def _interpreter(flags: Flags) -> str | None:
    """Return the interpreter before the program: below `venv/` if there is an environment and the path is relative."""
    path = flags.python_binary_path
    if path is None or path.startswith("/") or flags.python_venv is None:
        return path
    return f"{VENV}/{path}"


def _resources(draft: DraftJob, place: Key, prefix: str) -> None:
    """Set memory, vcores and GPUs of a role from the keys with this prefix."""
    memory = f"{prefix}.memory"
    draft.put((*place, "memory"), draft.read_size(memory) or _MEMORY, draft.origin(memory))
    for name, default in (("vcores", 1), ("gpus", 0)):
        key = f"{prefix}.{name}"
        if draft.settings.get(key):
            draft.put((*place, name), draft.read_integer(key, default), draft.origin(key))


def _places(draft: DraftJob, name: str) -> None:
    """Set where the tasks of a role may run."""
    place = ("roles", name)
    constrained = "tony.application.placement-spec" if draft.read_text("tony.application.placement-spec") else ""
    for key in (f"tony.{name}.placement-spec", "tony.containers.placement-spec"):
        if spec := draft.read_text(key):
            draft.put((*place, "yarn", "placement"), spec, draft.origin(key))
            constrained = key
            break
    key = f"tony.{name}.node-label"
    if label := draft.read_text(key):
        if constrained:
            message = f"ignored, as in LinkedIn TonY: with {constrained} YARN uses only nodes without a label."
            draft.note_key(key, message)
        else:
            draft.put((*place, "node_label"), label, draft.origin(key))
    for key in (f"tony.{name}.allocation-tags", "tony.containers.allocation-tags"):
        if tags := draft.read_items(key):
            draft.put_list((*place, "yarn", "placement_tags"), tags)
            break


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


def _add_am_program(draft: DraftJob, role: str) -> None:
    """Add the program that LinkedIn TonY's application master would run, with the resources of its container."""
    place = ("roles", role)
    _resources(draft, place, "tony.am")
    text, origin = _read_command(draft, "tony.am.command") or (
        draft.values.get("command"),
        draft.origins.get(("command",)),
    )
    if text and origin:
        draft.put((*place, "command"), f"{_HOME}{text}" if role == PREPROCESS_ROLE else text, origin)
    draft.put((*place, "env", "PREPROCESSING_JOB"), "true", LegacyOrigin(DEFAULTS))
    draft.put_list((*place, "files"), file_settings.read_files(draft, "tony.am.resources"))
    if role == MAIN_ROLE:
        draft.values.pop("command", None)  # the role has it
    else:
        draft.put((*place, "kind"), "setup", draft.origin(PREPROCESS))
        draft.put((*place, "exports", "MODEL_PARAMS"), _EXPORT_PREFIX, draft.origin(PREPROCESS))


def _tensorboard(draft: DraftJob, flags: Flags, folder: str) -> None:
    place, origin = ("roles", TENSORBOARD), draft.origin(LOG_FOLDER)
    draft.put((*place, "env", "TB_LOG_DIR"), escape(folder), origin)
    if draft.settings.get("tony.tensorboard.vcores") is None:
        draft.put((*place, "vcores"), 2, LegacyOrigin(DEFAULTS, "tony.tensorboard.vcores"))
    if draft.settings.get("tony.tensorboard.command") is None:
        program = _interpreter(flags) or "python"
        options = '--logdir "$TB_LOG_DIR" --port "$TB_PORT" --bind_all'
        draft.put((*place, "command"), escape(f"{program} -m tensorboard.main {options}"), origin)
