"""What to change in the job file after a failure: advice, and the lines to write, where the settings tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tony.core.policies.memory_policy import scale_memory
from tony.core.state import State
from tony.model.diagnosis import Diagnosis, EvidenceLine
from tony.model.failure import RUN_TIME_LIMITS, Failure, FailureCause, TimeoutFacts
from tony.model.job_spec import JobSpec
from tony.model.program_exit import ExitStatus
from tony.name_suggestions import find_closest_match
from tony.units import format_duration, format_exact_duration, format_exact_size, format_size

#: How many times its memory, or what it was seen to use if that is more, a task that was killed for it gets.
_MEMORY_FACTOR = 1.5
#: How many times as long a limit is made that has passed.
_TIME_FACTOR = 2.0
#: Limits of what takes about as long in every job; how long its programs need, only the user knows.
_TIME_LIMITS: Mapping[FailureCause, str] = {
    FailureCause.REGISTRATION_TIMEOUT: "registration",
    FailureCause.STARTUP_TIMEOUT: "startup",
}
#: No patch: where no node could ever take a task, a longer limit changes nothing, and only the scheduler's words tell.
_ALLOCATION_ADVICE = (
    "request less, select other nodes (see node_label), raise allocation_timeout if room will become free, or ask "
    "the cluster's administrator for more"
)
#: A path in a message that does not begin at the root, of something like a script.
_RELATIVE_PATH = re.compile(r"(?:^|[\s'\"])(?:\.{1,2}/[\w./-]+|(?:[\w-]+/)*[\w-]+\.(?:py|sh))(?![\w/])")
_QUOTED = re.compile(r"'([^']+)'")
#: A script without its interpreter in front, as `spawn` reports it.
_NOT_STARTED = re.compile(r"(command not found|not executable): (\S+\.(py|sh)) \(")
_INTERPRETERS = {"py": "python", "sh": "bash"}
#: A program that a shell, or `spawn`, did not find.
_NO_COMMAND = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$|command not found: ([\w.+-]+)")
#: Programs that jobs often start.
_PROGRAMS = ("python", "python3", "torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun", "Rscript")
#: The path in the message of Python about a missing file.
_MISSING_FILE = re.compile(r"No such file or directory: '([^']+)'$")
#: A variable that tony sets for PyTorch, and that is missing.
_RANK_MISSING = re.compile(r"KeyError: '(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT)'")


def add_remedy(state: State, failure: Failure, status: ExitStatus | None = None) -> Failure:
    """Return the failure with advice and patch of its diagnosis, where the settings of the job tell what to change.

    Args:
        status: of the program that failed; None if no exit was reported.
    """
    found = failure.diagnosis
    if found is None:
        return failure
    return replace(failure, diagnosis=_find_remedy(state, failure, found, status))


def _find_remedy(state: State, failure: Failure, found: Diagnosis, status: ExitStatus | None) -> Diagnosis:
    if failure.cause is FailureCause.MEMORY:
        return _raise_memory(state, failure, found, peak=(status.peak_memory if status else None) or 0)
    if failure.cause is FailureCause.ALLOCATION_TIMEOUT:
        return replace(found, advice=_ALLOCATION_ADVICE)
    if failure.cause in _TIME_LIMITS:
        return _raise_time_limit(state, failure, found)
    if failure.cause in RUN_TIME_LIMITS and isinstance(failure.facts, TimeoutFacts):
        setting, limit = RUN_TIME_LIMITS[failure.cause], format_duration(failure.facts.limit)
        advice = f"raise {setting}, which is {limit}, to what the program needs, or make it faster"
        return replace(found, advice=advice)
    if failure.cause in (FailureCause.PROGRAM, FailureCause.LAUNCH):
        return _change_settings(state, failure, found)
    return found


def _raise_memory(state: State, failure: Failure, found: Diagnosis, *, peak: int) -> Diagnosis:
    if failure.task is None:
        return found
    role, has = failure.task.role, state.tasks[failure.task].memory or state.roles[failure.task.role].memory
    # A container may have a higher limit than its role: on Kubernetes it has a share for the executor.
    more = scale_memory(max(has, peak), _MEMORY_FACTOR)
    advice = f"request more memory for {role}, which had {format_size(has)}, or load less at a time"
    return replace(found, advice=advice, patch=_patch_role(role, f'memory = "{format_exact_size(more)}"'))


def _raise_time_limit(state: State, failure: Failure, found: Diagnosis) -> Diagnosis:
    name = _TIME_LIMITS[failure.cause]
    limit = getattr(state.spec.timeouts, name)
    if not limit:
        return found
    return replace(found, patch=(f'{name}_timeout = "{format_exact_duration(_TIME_FACTOR * limit)}"',))


def _change_settings(state: State, failure: Failure, found: Diagnosis) -> Diagnosis:
    """Return the remedy for a program that misses what a setting of the job gives it."""
    line = found.evidence[0] if found.evidence else EvidenceLine(stream="", number=0, text="", ago=0.0, rule="")
    spec = state.spec
    if spec.source is None and _is_script_missing(spec, failure, line):
        advice = "source is not set, so the work folder of the task is empty: set it to the folder with the script"
        return replace(found, advice=advice, patch=('source = "."',))
    script = _NOT_STARTED.search(failure.reason) if failure.cause is FailureCause.LAUNCH else None
    if script:
        return replace(found, advice=f"name its interpreter: {_INTERPRETERS[script[3]]} {script[2]}")
    if misspelled := _find_misspelled_program(failure, line):
        return replace(found, advice=f"correct the command: did you mean {misspelled}?")
    if line.rule == "python-file" and (path := _MISSING_FILE.search(line.text)):
        return replace(found, advice=_advise_on_file(path[1]))
    lacks_rank = line.rule == "rank-unset" or _RANK_MISSING.search(line.text) is not None
    if lacks_rank and spec.framework == "none":
        advice = "framework is none, so no task knows its rank: pytorch sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT"
        return replace(found, advice=advice, patch=('framework = "pytorch"',))
    role = failure.task.role if failure.task else ""
    if line.rule == "gpu-missing" and role and not state.roles[role].spec.resources.gpus:
        advice = f"{role} requests no GPU, so it sees none: request one, or let the program use the CPU"
        return replace(found, advice=advice, patch=_patch_role(role, "gpus = 1"))
    return found


def _find_misspelled_program(failure: Failure, line: EvidenceLine) -> str:
    """Return the program that was meant where one was not found; empty if it is none that jobs often start."""
    is_launch = failure.cause is FailureCause.LAUNCH
    if not is_launch and line.rule != "command-not-found":
        return ""
    missing = _NO_COMMAND.search(failure.reason if is_launch else line.text)
    name = (missing[1] or missing[2]) if missing else ""
    near = find_closest_match(name, _PROGRAMS) if name else None
    return near if near and near != name else ""


def _advise_on_file(path: str) -> str:
    if path.startswith("/"):
        return f"put {path} on every node, or correct the path"
    return f"{path} is relative to the work folder of the task: add it to source or files, or write an absolute path"


def _is_script_missing(spec: JobSpec, failure: Failure, line: EvidenceLine) -> bool:
    """Return True if a script was not found that the command names relative to the work folder."""
    if line.rule == "script-missing" and failure.task:
        path, command = _QUOTED.search(line.text), spec.command_of(failure.task.role) or ""
        return not path or path[1] not in (command if isinstance(command, str) else " ".join(command))
    is_launch = failure.cause is FailureCause.LAUNCH
    text = failure.reason if is_launch else line.text
    return (is_launch or line.rule == "command-not-found") and _RELATIVE_PATH.search(text) is not None


def _patch_role(role: str, line: str) -> tuple[str, ...]:
    return f"[roles.{role}]", line
