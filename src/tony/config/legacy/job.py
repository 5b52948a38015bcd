"""What holds for the whole job: name, framework, command, variables, time-outs, retries."""

from __future__ import annotations

from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DEFAULTS, DraftJob, LegacyOrigin
from tony.config.legacy.flags import Flags
from tony.config.legacy.keys import VARIABLES
from tony.config.legacy.task_command import command_from_flags, text_of
from tony.config.legacy.task_types import LegacyTaskTypes
from tony.config.value_format import name as shown
from tony.config.value_table import RESERVED_ENV
from tony.model.masking import is_secret
from tony.model.placeholders import escaped

NAME = "TensorFlowApplication"
FRAMEWORK = "tensorflow"
#: A container variable of this name, set to true, leaves Hadoop's class path away.
SKIP_HADOOP_PATH = "SKIP_HADOOP_PATH"
#: Seconds between heartbeats at least.
_LEAST_INTERVAL = 0.05
#: As many heartbeats may be missed at least.
_LEAST_MISSED = 3
_MODES = {"gang": "gang", "fcfs": "fcfs"}


def translate(draft: DraftJob, flags: Flags, types: LegacyTaskTypes) -> None:
    """Puts all of it into the draft."""
    _text_or(draft, ("name",), "tony.application.name", NAME)
    if types.single:  # the original runs it without any framework
        draft.put(("framework",), "none", LegacyOrigin(DEFAULTS))
        _without(draft, "tony.application.framework", "the program runs alone, so no framework tells it of others.")
    else:
        framework = value_parsing.text(draft, "tony.application.framework") or FRAMEWORK
        draft.put(("framework",), framework.lower(), _origin(draft, "tony.application.framework"))
    if command := command_from_flags(draft, flags):
        draft.put(("command",), *command)
    _variables(draft)
    _mode(draft)
    _results(draft, types)
    _heartbeats(draft)
    _metrics(draft)
    _timeouts(draft)


def _text_or(draft: DraftJob, key: tuple[str, ...], original: str, default: str) -> None:
    draft.put(key, value_parsing.text(draft, original) or default, _origin(draft, original))


def _origin(draft: DraftJob, key: str) -> LegacyOrigin:
    value = draft.settings.get(key)
    return LegacyOrigin(value.place, key) if value and value.text else LegacyOrigin(DEFAULTS, key)


def _without(draft: DraftJob, key: str, why: str) -> None:
    if value := draft.settings.get(key):
        draft.note(value, why)


def _variables(draft: DraftJob) -> None:
    for name, (value, origin) in value_parsing.variables(draft, "tony.execution.envs").items():
        if not _is_refused(draft, name, origin):
            draft.put(("env", name), escaped(value), origin)
    skips = False
    for name, (value, origin) in value_parsing.variables(draft, "tony.containers.envs").items():
        if name == SKIP_HADOOP_PATH:
            skips = value.lower() == "true"
        if _is_refused(draft, name, origin):
            continue
        if is_secret(name):
            message = f"{shown(name)} is a secret by its name. It is set in the programs only, where it is hidden."
            draft.tell(origin, message)
            if ("env", name) not in draft.origins:
                draft.put(("env", name), escaped(value), origin)
        else:
            draft.put(("container_env", name), value, origin)
    if not skips:
        draft.put(("hadoop_classpath",), True, LegacyOrigin(DEFAULTS))


def _is_refused(draft: DraftJob, name: str, origin: LegacyOrigin) -> bool:
    """Tells of variables that do nothing here; answers whether it cannot be set at all."""
    if name in RESERVED_ENV:
        draft.tell(origin, f"{name}: {RESERVED_ENV[name]}")
        return True
    for variable in VARIABLES:
        if variable.name == name and variable.gone:
            draft.tell(origin, f"{name}: {variable.gone}")
    return False


def _mode(draft: DraftJob) -> None:
    value = draft.settings.get("tony.application.distributed-mode")
    if value is None or not value.text:
        return
    mode = _MODES.get(value.text.lower())
    if mode is None:
        draft.blame(value, "it must be GANG or FCFS.")
    else:
        draft.put(("distributed_mode",), mode, value)


def _results(draft: DraftJob, types: LegacyTaskTypes) -> None:
    every = "tony.application.fail-on-worker-failure-enabled"
    policy = "any-task" if value_parsing.truth(draft, every) else "chief-or-all"
    draft.put(("failure_policy",), policy, _origin(draft, every))
    retries = draft.settings.get("tony.am.retry-count")
    number = value_parsing.integer(draft, "tony.am.retry-count", 0)
    if retries and number > 0 and types.single:
        draft.note(retries, "a program that runs alone is not started again, as in the original. `--set "
                   f"max_restarts={number}` does it.")  # fmt: skip
    elif retries and number > 0:
        draft.put(("max_restarts",), number, retries)


def _metrics(draft: DraftJob) -> None:
    key = "tony.task.metrics-interval-ms"
    if value := draft.settings.get(key):
        draft.put(("metrics_interval",), text_of(value_parsing.integer(draft, key, 5000) / 1000), value)


def _heartbeats(draft: DraftJob) -> None:
    often, missed = "tony.task.heartbeat-interval-ms", "tony.task.max-missed-heartbeats"
    if not (draft.settings.get(often) or draft.settings.get(missed)):
        return
    interval = value_parsing.integer(draft, often, 1000) / 1000
    if value := draft.settings.get(often):
        if interval < _LEAST_INTERVAL:
            draft.note(value, "the least interval is 50 ms.")
            interval = _LEAST_INTERVAL
        draft.put(("heartbeat_interval",), text_of(interval), value)
    limit = interval * max(_LEAST_MISSED, value_parsing.integer(draft, missed, 25))
    draft.put(("heartbeat_timeout",), text_of(limit), draft.settings.get(missed) or _origin(draft, often))


def _timeouts(draft: DraftJob) -> None:
    for ours, original, unit in (
        ("job_timeout", "tony.application.timeout", 0.001),
        ("queue_timeout", "tony.am.startup-timeout", 0.001),
        ("execution_timeout", "tony.task.executor.execution-timeout-ms", 0.001),
    ):
        if limit := value_parsing.duration_text(draft, original, unit):
            draft.put((ours,), limit, _origin(draft, original))
    _allocation(draft)
    found = [
        (seconds, _origin(draft, key))
        for key, unit in (
            ("tony.container.registration.timeout", 0.001),
            ("tony.task.executor.registry-timeout-sec", 1.0),
        )
        if (seconds := value_parsing.duration(draft, key, unit))
    ]
    if found:
        shortest, origin = min(found, key=lambda each: each[0])
        draft.put(("registration_timeout",), text_of(shortest), origin)
    else:
        draft.put(("registration_timeout",), "off", _origin(draft, "tony.container.registration.timeout"))


def _allocation(draft: DraftJob) -> None:
    key = "tony.container.allocation.timeout"
    limit = value_parsing.duration_text(draft, key, 0.001)
    if limit and draft.values.get("distributed_mode") == "fcfs":
        _without(draft, key, "it counts in GANG mode only.")
    elif limit:
        draft.put(("allocation_timeout",), limit, _origin(draft, key))
