"""Jobs that the core's tests use again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import AfterCondition, RoleKind

OK = ExitStatus(reason=ExitReason.EXITED, code=0)
FAILED = ExitStatus(reason=ExitReason.EXITED, code=1, tail=("boom",))
SEGV = ExitStatus(reason=ExitReason.EXITED, signal="SIGSEGV")
COLLISION = ExitStatus(reason=ExitReason.PORT_COLLISION, code=1, message="port 5000 was taken by pid 7")


def workers(count: int = 2, **job: Any) -> JobSpec:
    return JobSpec(command="x", roles={"worker": Role(instances=count)}, **job)


def roles(**by_name: Role) -> JobSpec:
    return JobSpec(command="x", roles=by_name)


def task(text: str) -> TaskId:
    return TaskId.parse(text)


def staged() -> JobSpec:
    """Preparation, then training, then export; a sidecar beside it."""
    return JobSpec(
        command="x",
        roles={
            "prep": Role(instances=2),
            "chief": Role(after={"prep": AfterCondition.SUCCEEDED}),
            "worker": Role(instances=2, after={"prep": AfterCondition.SUCCEEDED}),
            "ps": Role(kind=RoleKind.UNTRACKED, after={"prep": AfterCondition.SUCCEEDED}),
            "board": Role(kind=RoleKind.SIDECAR),
            "export": Role(after={"chief": AfterCondition.SUCCEEDED, "worker": AfterCondition.ENDED}),
        },
    )


def with_restarts(spec: JobSpec, count: int) -> JobSpec:
    return replace(spec, max_restarts=count)
