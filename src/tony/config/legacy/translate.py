"""Translates LinkedIn TonY settings and flags to the values of a job file: the entry, and settings of the whole job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tony.config.legacy import draft_checks, file_settings, roles, yarn_settings
from tony.config.legacy.draft_job import DEFAULTS, DraftJob, LegacyOrigin, format_seconds
from tony.config.legacy.flags import Flags
from tony.config.legacy.keys import VARIABLES, find_replacement
from tony.config.legacy.settings_sources import read
from tony.config.legacy.task_types import LegacyTaskTypes, find_task_types
from tony.config.table.converted_settings import RESERVED_ENV
from tony.config.table.value_format import format_name
from tony.model.masking import is_secret
from tony.model.placeholders import escape

_NAME = "TensorFlowApplication"
_FRAMEWORK = "tensorflow"
#: Container variable: `true` turns off Hadoop's class path.
_SKIP_HADOOP_PATH = "SKIP_HADOOP_PATH"
_MIN_HEARTBEAT_SECONDS = 0.05
#: Least number of heartbeats that may be missed.
_MIN_MISSED_HEARTBEATS = 3


def translate(flags: Flags, environ: Mapping[str, str], cwd: Path) -> tuple[DraftJob, bool]:
    """Read all settings of a LinkedIn TonY job and translate them.

    Args:
        cwd: absolute base of relative paths.

    Returns:
        The draft, and whether every file could be read.
    """
    settings, problems, complete = read(flags, environ, cwd)
    draft = DraftJob(settings=settings, problems=problems)
    draft_checks.check_names(draft)
    types = find_task_types(draft)
    _name_and_command(draft, flags, types)
    _variables(draft)
    _mode(draft)
    _results(draft, types)
    _heartbeats(draft)
    _timeouts(draft)
    _plain(draft)
    roles.translate(draft, flags, types)
    file_settings.translate(draft, flags, types)
    yarn_settings.translate(draft, types, cwd)
    draft_checks.check_limits(draft, types)
    draft_checks.check_settings_file(draft, flags, types, cwd)
    file_settings.check_interpreter(draft, flags, cwd)
    return draft, complete


def _read_duration(draft: DraftJob, key: str) -> str | None:
    seconds = draft.read_seconds(key)
    return None if seconds is None else format_seconds(seconds)


def _read_interval(draft: DraftJob, key: str) -> str | None:
    """Return a duration that may be 0; None if it is not set."""
    return format_seconds(draft.read_integer(key, 5000) / 1000) if draft.settings.get(key) else None


def _read_joined_words(draft: DraftJob, key: str) -> str | None:
    return ",".join(draft.read_words(key)) or None


#: Settings with one replacement, which the table of keys names -> how each is read; None leaves it out.
_PLAIN: Mapping[str, Callable[[DraftJob, str], str | None]] = {
    "tony.application.type": DraftJob.read_text,
    "tony.yarn.queue": DraftJob.read_text,
    "tony.application.node-label": DraftJob.read_text,
    "tony.application.placement-spec": DraftJob.read_text,
    "tony.application.tags": _read_joined_words,
    "tony.other.namenodes": _read_joined_words,
    "tony.application.timeout": _read_duration,
    "tony.am.startup-timeout": _read_duration,
    "tony.task.executor.execution-timeout-ms": _read_duration,
    "tony.task.metrics-interval-ms": _read_interval,
}


def _plain(draft: DraftJob) -> None:
    for key, read_value in _PLAIN.items():
        if value := read_value(draft, key):
            draft.put(find_replacement(key), value, draft.origin(key))


def _name_and_command(draft: DraftJob, flags: Flags, types: LegacyTaskTypes) -> None:
    _put_text(draft, "tony.application.name", _NAME)
    _put_text(draft, "tony.application.framework", _FRAMEWORK)
    draft.values["framework"] = draft.values["framework"].lower()
    if types.single:  # LinkedIn TonY runs it without a framework
        draft.put(("framework",), "none", LegacyOrigin(DEFAULTS))
        draft.note_key("tony.application.framework", "there is a single task, so no framework is needed.")
    if command := roles.command_from_flags(draft, flags):
        draft.put(("command",), *command)


def _put_text(draft: DraftJob, key: str, default: str) -> None:
    text = draft.read_text(key)
    draft.put(find_replacement(key), text or default, draft.origin(key) if text else LegacyOrigin(DEFAULTS, key))


def _variables(draft: DraftJob) -> None:
    for name, (value, origin) in draft.read_variables("tony.execution.envs").items():
        if not _is_refused(draft, name, origin):
            draft.put(("env", name), escape(value), origin)
    skips = False
    for name, (value, origin) in draft.read_variables("tony.containers.envs").items():
        if name == _SKIP_HADOOP_PATH:
            skips = value.lower() == "true"
        if _is_refused(draft, name, origin):
            continue
        if is_secret(name):
            message = (
                f"{format_name(name)} is a secret by its name. It is set only in the programs, where it is masked."
            )
            draft.note_part(origin, message)
            if ("env", name) not in draft.origins:
                draft.put(("env", name), escape(value), origin)
        else:
            draft.put(("container_env", name), value, origin)
    if not skips:
        draft.put(("hadoop_classpath",), True, LegacyOrigin(DEFAULTS))


def _is_refused(draft: DraftJob, name: str, origin: LegacyOrigin) -> bool:
    """Add a note on a variable without effect; return True if it cannot be set at all."""
    if name in RESERVED_ENV:
        draft.note_part(origin, f"{name}: {RESERVED_ENV[name]}")
        return True
    for variable in VARIABLES:
        if variable.name == name and variable.obsolete:
            draft.note_part(origin, f"{name}: {variable.obsolete}")
    return False


def _mode(draft: DraftJob) -> None:
    value = draft.settings.get("tony.application.distributed-mode")
    if value is None or not value.text:
        return
    mode = value.text.lower()
    if mode in ("gang", "fcfs"):
        draft.put(("distributed_mode",), mode, draft.origin(value.key))
    else:
        draft.add_error(value, "it must be GANG or FCFS.")


def _results(draft: DraftJob, types: LegacyTaskTypes) -> None:
    every, retries = "tony.application.fail-on-worker-failure-enabled", "tony.am.retry-count"
    policy = "any-task" if draft.read_truth(every) else "chief-or-all"
    draft.put(("failure_policy",), policy, draft.origin(every))
    number = draft.read_integer(retries, 0)
    if number > 0 and types.single:
        remedy = f"To restart it: `--set max_restarts={number}`."
        draft.note_key(retries, f"a single program is not restarted, as in LinkedIn TonY. {remedy}")
    elif number > 0:
        draft.put(("max_restarts",), number, draft.origin(retries))


def _heartbeats(draft: DraftJob) -> None:
    often, missed = "tony.task.heartbeat-interval-ms", "tony.task.max-missed-heartbeats"
    if not (draft.settings.get(often) or draft.settings.get(missed)):
        return
    interval = draft.read_integer(often, 1000) / 1000
    if draft.settings.get(often):
        if interval < _MIN_HEARTBEAT_SECONDS:
            draft.note_key(often, "the minimum interval is 50 ms.")
            interval = _MIN_HEARTBEAT_SECONDS
        draft.put(("heartbeat_interval",), format_seconds(interval), draft.origin(often))
    limit = interval * max(_MIN_MISSED_HEARTBEATS, draft.read_integer(missed, 25))
    draft.put(
        ("heartbeat_timeout",), format_seconds(limit), draft.origin(missed if draft.settings.get(missed) else often)
    )


def _timeouts(draft: DraftJob) -> None:
    allocation, registration = "tony.container.allocation.timeout", "tony.container.registration.timeout"
    limit = _read_duration(draft, allocation)
    if limit and draft.values.get("distributed_mode") == "fcfs":
        draft.note_key(allocation, "it has an effect in GANG mode only.")
    elif limit:
        draft.put(("allocation_timeout",), limit, draft.origin(allocation))
    found = [
        (seconds, draft.origin(key))
        for key, unit in ((registration, 0.001), ("tony.task.executor.registry-timeout-sec", 1.0))
        if (seconds := draft.read_seconds(key, unit))
    ]
    shortest, origin = min(found, key=lambda each: each[0], default=(None, draft.origin(registration)))
    draft.put(("registration_timeout",), "off" if shortest is None else format_seconds(shortest), origin)
