"""Builds the command of the tasks from LinkedIn TonY flags and settings."""

from __future__ import annotations

from tony.config.checks.hints import Note
from tony.config.legacy.draft_job import DraftJob, LegacyOrigin
from tony.config.legacy.flags import Flags
from tony.model.placeholders import escaped
from tony.units import exact_duration

#: Folder that the archive of an environment is unpacked to.
VENV = "venv"


def command_from_flags(draft: DraftJob, flags: Flags) -> tuple[str, LegacyOrigin] | None:
    """Return the command of types without their own: `--executes`, else tony.containers.command; None if neither."""
    if flags.executes is not None:
        words = (interpreter(flags), flags.executes, flags.task_params)
        return escaped(" ".join(word for word in words if word)), LegacyOrigin("--executes")
    for name in ("task_params", "python_binary_path"):
        if getattr(flags, name) is not None:
            message = "it has no effect without --executes, as in LinkedIn TonY."
            draft.notes.append(Note(key=f"--{name}", message=message))
    return command_from_setting(draft, "tony.containers.command")


def command_from_setting(draft: DraftJob, key: str) -> tuple[str, LegacyOrigin] | None:
    """Return the command from a setting; None if it is not set."""
    value = draft.settings.get(key)
    return (escaped(value.text), LegacyOrigin(value.place, key)) if value and value.text else None


def interpreter(flags: Flags) -> str | None:
    """Return the interpreter before the program: below `venv/` if there is an environment and the path is relative."""
    path = flags.python_binary_path
    if path is None or path.startswith("/") or flags.python_venv is None:
        return path
    return f"{VENV}/{path}"


def text_of(seconds: float) -> str:
    """Return a duration as in a job file, without floating-point noise."""
    return exact_duration(round(seconds, 6))
