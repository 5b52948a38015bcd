"""Settings of the whole job: name, framework, command, variables, timeouts, retries."""

from __future__ import annotations

from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DEFAULTS, DraftJob, LegacyOrigin
from tony.config.legacy.flags import Flags
from tony.config.legacy.keys import VARIABLES
from tony.config.legacy.roles import command_from_flags, text_of
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.table.converted_settings import RESERVED_ENV
from tony.config.table.value_format import format_name
from tony.model.masking import is_secret
from tony.model.placeholders import escape

NAME = "TensorFlowApplication"
FRAMEWORK = "tensorflow"
#: Container variable: `true` turns off Hadoop's class path.
SKIP_HADOOP_PATH = "SKIP_HADOOP_PATH"
_MIN_HEARTBEAT_SECONDS = 0.05
#: Least number of heartbeats that may be missed.
_MIN_MISSED_HEARTBEATS = 3
_MODES = {"gang": "gang", "fcfs": "fcfs"}


def translate(draft: DraftJob, flags: Flags, types: LegacyTaskTypes) -> None:
    """Add the settings to the draft."""
    _put_text(draft, ("name",), "tony.application.name", NAME)
    if types.single:  # LinkedIn TonY runs it without a framework
        draft.put(("framework",), "none", LegacyOrigin(DEFAULTS))
        _note_unused(draft, "tony.application.framework", "there is a single task, so no framework is needed.")
    else:
        framework = value_parsing.parse_text(draft, "tony.application.framework") or FRAMEWORK
        draft.put(("framework",), framework.lower(), _origin(draft, "tony.application.framework"))
    if command := command_from_flags(draft, flags):
        draft.put(("command",), *command)
    _variables(draft)
    _mode(draft)
    _results(draft, types)
    _heartbeats(draft)
    _metrics(draft)
    _timeouts(draft)


def _put_text(draft: DraftJob, key: tuple[str, ...], legacy_key: str, default: str) -> None:
    draft.put(key, value_parsing.parse_text(draft, legacy_key) or default, _origin(draft, legacy_key))


def _origin(draft: DraftJob, key: str) -> LegacyOrigin:
    value = draft.settings.get(key)
    return LegacyOrigin(value.place, key) if value and value.text else LegacyOrigin(DEFAULTS, key)


def _note_unused(draft: DraftJob, key: str, why: str) -> None:
    if value := draft.settings.get(key):
        draft.note(value, why)


def _variables(draft: DraftJob) -> None:
    for name, (value, origin) in value_parsing.parse_variables(draft, "tony.execution.envs").items():
        if not _is_refused(draft, name, origin):
            draft.put(("env", name), escape(value), origin)
    skips = False
    for name, (value, origin) in value_parsing.parse_variables(draft, "tony.containers.envs").items():
        if name == SKIP_HADOOP_PATH:
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
    mode = _MODES.get(value.text.lower())
    if mode is None:
        draft.add_error(value, "it must be GANG or FCFS.")
    else:
        draft.put(("distributed_mode",), mode, value)


def _results(draft: DraftJob, types: LegacyTaskTypes) -> None:
    every = "tony.application.fail-on-worker-failure-enabled"
    policy = "any-task" if value_parsing.parse_truth(draft, every) else "chief-or-all"
    draft.put(("failure_policy",), policy, _origin(draft, every))
    retries = draft.settings.get("tony.am.retry-count")
    number = value_parsing.parse_integer(draft, "tony.am.retry-count", 0)
    if retries and number > 0 and types.single:
        draft.note(retries, "a single program is not restarted, as in LinkedIn TonY. To restart it: `--set "
                   f"max_restarts={number}`.")  # fmt: skip
    elif retries and number > 0:
        draft.put(("max_restarts",), number, retries)


def _metrics(draft: DraftJob) -> None:
    key = "tony.task.metrics-interval-ms"
    if value := draft.settings.get(key):
        draft.put(("metrics_interval",), text_of(value_parsing.parse_integer(draft, key, 5000) / 1000), value)


def _heartbeats(draft: DraftJob) -> None:
    often, missed = "tony.task.heartbeat-interval-ms", "tony.task.max-missed-heartbeats"
    if not (draft.settings.get(often) or draft.settings.get(missed)):
        return
    interval = value_parsing.parse_integer(draft, often, 1000) / 1000
    if value := draft.settings.get(often):
        if interval < _MIN_HEARTBEAT_SECONDS:
            draft.note(value, "the minimum interval is 50 ms.")
            interval = _MIN_HEARTBEAT_SECONDS
        draft.put(("heartbeat_interval",), text_of(interval), value)
    limit = interval * max(_MIN_MISSED_HEARTBEATS, value_parsing.parse_integer(draft, missed, 25))
    draft.put(("heartbeat_timeout",), text_of(limit), draft.settings.get(missed) or _origin(draft, often))


def _timeouts(draft: DraftJob) -> None:
    for key, legacy_key, unit in (
        ("job_timeout", "tony.application.timeout", 0.001),
        ("queue_timeout", "tony.am.startup-timeout", 0.001),
        ("execution_timeout", "tony.task.executor.execution-timeout-ms", 0.001),
    ):
        if limit := value_parsing.format_duration(draft, legacy_key, unit):
            draft.put((key,), limit, _origin(draft, legacy_key))
    _allocation(draft)
    found = [
        (seconds, _origin(draft, key))
        for key, unit in (
            ("tony.container.registration.timeout", 0.001),
            ("tony.task.executor.registry-timeout-sec", 1.0),
        )
        if (seconds := value_parsing.parse_duration(draft, key, unit))
    ]
    if found:
        shortest, origin = min(found, key=lambda each: each[0])
        draft.put(("registration_timeout",), text_of(shortest), origin)
    else:
        draft.put(("registration_timeout",), "off", _origin(draft, "tony.container.registration.timeout"))


def _allocation(draft: DraftJob) -> None:
    key = "tony.container.allocation.timeout"
    limit = value_parsing.format_duration(draft, key, 0.001)
    if limit and draft.values.get("distributed_mode") == "fcfs":
        _note_unused(draft, key, "it has an effect in GANG mode only.")
    elif limit:
        draft.put(("allocation_timeout",), limit, _origin(draft, key))
