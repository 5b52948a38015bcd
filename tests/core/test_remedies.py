"""Advice and the lines of the job file that may help, where the settings of the job tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.simulated import started
from tests.core.specs import task, workers
from tests.facts import mentions
from tony.core.deadline import DeadlineKind
from tony.core.failure_builders import failure_from_exit, failure_from_job_timeout, failure_from_timeout
from tony.model.diagnosis import Diagnosis, EvidenceLine
from tony.model.job_spec import GIB, MIB, JobSpec, Resources, Timeouts
from tony.model.program_exit import ExitReason, ExitStatus

RANK = "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected"
NO_SCRIPT = "python: can't open file '/w/train.py': [Errno 2] No such file or directory"


def diagnose(spec: JobSpec, rule: str = "", text: str = "", **status: Any) -> Diagnosis:
    """The diagnosis of worker:0, which printed a line that meets a rule."""
    simulation = started(spec)
    line = EvidenceLine(stream="err", number=1, text=text, ago=0.0, rule=rule)
    fields: dict[str, Any] = {"reason": ExitReason.EXITED, "code": 1, "evidence": (line,) if rule else ()} | status
    state = simulation.app.state
    failure = failure_from_exit(state, state.tasks[task("worker:0")], ExitStatus(**fields))
    assert failure.diagnosis
    return failure.diagnosis


def test_more_memory_for_the_role_that_ran_out_of_it() -> None:
    spec = workers(1)
    worker = replace(spec.roles["worker"], resources=Resources(memory=2 * GIB))
    found = diagnose(replace(spec, roles={"worker": worker}), reason=ExitReason.MEMORY, code=None, signal="SIGKILL")
    assert found.patch == ("[roles.worker]", 'memory = "3g"')
    assert mentions(found.advice, "worker", "2g")


def test_more_memory_than_the_program_was_seen_to_use() -> None:
    """The limit of a container may be above that of its role: its executor has a share."""
    spec = workers(1)
    worker = replace(spec.roles["worker"], resources=Resources(memory=64 * MIB))
    tight = replace(spec, roles={"worker": worker})
    found = diagnose(tight, reason=ExitReason.MEMORY, code=None, signal="SIGKILL", peak_memory=100 * MIB)
    assert found.patch == ("[roles.worker]", 'memory = "150m"')


@pytest.mark.parametrize(
    ("kind", "timeouts", "patch"),
    [
        (DeadlineKind.EXECUTION, Timeouts(execution=60.0), ""),
        (DeadlineKind.STARTUP, Timeouts(startup=1800.0), 'startup_timeout = "1h"'),
        (DeadlineKind.REGISTRATION, Timeouts(registration=900.0), 'registration_timeout = "30m"'),
    ],
)
def test_a_longer_limit_for_a_task(kind: DeadlineKind, timeouts: Timeouts, patch: str) -> None:
    simulation = started(workers(1, timeouts=timeouts))
    failure = failure_from_timeout(simulation.app.state, simulation.app.state.tasks[task("worker:0")], kind, 1.0)
    assert failure.diagnosis
    assert failure.diagnosis.patch == ((patch,) if patch else ())


@pytest.mark.parametrize(
    ("kind", "timeouts", "patch"),
    [
        (DeadlineKind.JOB, Timeouts(job=3600.0), ""),
        (DeadlineKind.ALLOCATION, Timeouts(allocation=300.0), ""),
    ],
)
def test_a_longer_limit_for_the_job(kind: DeadlineKind, timeouts: Timeouts, patch: str) -> None:
    simulation = started(workers(1, timeouts=timeouts))
    failure = failure_from_job_timeout(simulation.app.state, kind, 1.0)
    assert failure.diagnosis
    assert failure.diagnosis.patch == ((patch,) if patch else ())


def test_the_advice_after_missing_containers_holds_for_any_reason() -> None:
    """A longer limit is no use where no node can ever take a task."""
    failure = failure_from_job_timeout(
        started(workers(1, timeouts=Timeouts(allocation=300.0))).app.state, DeadlineKind.ALLOCATION, 1.0
    )
    assert failure.diagnosis
    assert mentions(failure.diagnosis.advice, "request less", "node_label", "allocation_timeout", "administrator")


@pytest.mark.parametrize(
    "reason", ["command not found: train.py (not on PATH)", "not executable: ./train.py (chmod +x)"]
)
def test_the_interpreter_of_a_script(reason: str) -> None:
    found = diagnose(workers(1, source="."), reason=ExitReason.LAUNCH_FAILED, code=None, message=reason)
    assert mentions(found.advice, "python")
    assert "train.py" in found.advice


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("script-missing", NO_SCRIPT),
        ("script-missing", "python3: can't open file '/tmp/x/jobs/train.py': [Errno 2] No such file or directory"),
        ("command-not-found", "bash: line 1: ./run.sh: No such file or directory"),
    ],
)
def test_a_script_that_is_missing_because_there_is_no_source(rule: str, text: str) -> None:
    found = diagnose(workers(1), rule, text)
    assert found.patch == ('source = "."',)
    assert mentions(found.advice, "source is not set")
    assert diagnose(workers(1, source="/home/ann/project"), rule, text).patch == ()


def test_a_command_that_the_executor_could_not_start() -> None:
    message = "command not found: ./train.sh (no such file)"
    found = diagnose(workers(1), reason=ExitReason.LAUNCH_FAILED, code=None, message=message)
    assert found.patch == ('source = "."',)
    other = diagnose(workers(1), reason=ExitReason.LAUNCH_FAILED, code=None, message="command not found: pyhton")
    assert other.patch == ()


def test_an_unknown_program_has_nothing_to_do_with_the_source() -> None:
    assert diagnose(workers(1), "command-not-found", "bash: line 1: tranin: command not found").patch == ()


@pytest.mark.parametrize(("rule", "text"), [("rank-unset", RANK), ("python-code", "KeyError: 'RANK'")])
def test_no_rank_without_a_framework(rule: str, text: str) -> None:
    found = diagnose(workers(1), rule, text)
    assert found.patch == ('framework = "pytorch"',)
    assert mentions(found.advice, "framework is none", "RANK")
    assert diagnose(workers(1, framework="pytorch"), rule, text).patch == ()


def test_a_gpu_for_a_role_that_requests_none() -> None:
    found = diagnose(workers(1), "gpu-missing", "RuntimeError: No CUDA GPUs are available")
    assert found.patch == ("[roles.worker]", "gpus = 1")
    spec = workers(1)
    worker = replace(spec.roles["worker"], resources=Resources(gpus=1))
    other = diagnose(replace(spec, roles={"worker": worker}), "gpu-missing", "RuntimeError: No CUDA GPUs are available")
    assert other.patch == ()


def test_other_failures_have_no_patch() -> None:
    assert diagnose(workers(1), "python-code", "NameError: name 'x' is not defined").patch == ()


def test_a_limit_of_the_run_time_is_named_with_its_value() -> None:
    state = started(replace(workers(1), timeouts=Timeouts(execution=5.0))).app.state
    failure = failure_from_timeout(state, state.tasks[task("worker:0")], DeadlineKind.EXECUTION, 6.0)
    assert failure.diagnosis
    assert mentions(failure.diagnosis.advice, "execution_timeout", "5 s")


@pytest.mark.parametrize(
    ("rule", "text", "said"),
    [
        ("command-not-found", "bash: line 1: pythn: command not found", ("did you mean python?",)),
        (
            "python-file",
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.csv'",
            ("/data/a.csv", "node"),
        ),
        ("python-file", "FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'", ("a.csv", "work folder")),
    ],
)
def test_the_advice_names_what_is_missing(rule: str, text: str, said: tuple[str, ...]) -> None:
    assert mentions(diagnose(workers(1), rule, text).advice, *said)


def test_a_program_that_a_node_lacks_is_not_misspelled() -> None:
    text = "bash: line 1: python3: command not found"
    assert "did you mean" not in diagnose(workers(1), "command-not-found", text).advice
