"""The root cause is selected among the failures of a session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.sample_states import standing
from tests.core.specs import workers
from tony.core.steps.job_finish import select_root_cause
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning
from tony.model.failure import Failure, FailureCause, FailureClass
from tony.model.ids import TaskId


def failure(cause: str, at: float, who: str = "worker:0") -> Failure:
    return Failure(
        failure_class=FailureClass.USER,
        cause=FailureCause(cause),
        reason=f"{who} {cause} at {at}",
        session=1,
        at=at,
        task=TaskId.parse(who),
    )


@pytest.mark.parametrize(
    ("decided", "others", "root"),
    [
        (("program", 5.0), [("program", 4.0), ("lost", 6.0)], ("program", 4.0)),
        (("program", 5.0), [("lost", 3.0)], ("lost", 3.0)),
        (("silent", 30.0), [("program", 31.0)], ("silent", 30.0)),
        (("job-timeout", 9.0), [("program", 4.0)], ("job-timeout", 9.0)),
        (("group-timeout", 9.0), [("program", 9.5)], ("group-timeout", 9.0)),
        (("program", 9.0), [("startup-timeout", 4.0)], ("program", 9.0)),
        (("killed", 9.0), [("program", 4.0)], ("killed", 9.0)),
    ],
)
def test_the_root_cause(decided: tuple[str, float], others: list[tuple[str, float]], root: tuple[str, float]) -> None:
    """Among programs that ended, the earliest; limits and kills stand as they were decided."""
    state = standing(workers(2), worker="running running")
    first = failure(*decided)
    state.failures = [first, *(failure(*other, "worker:1") for other in others)]
    found = select_root_cause(state, first)
    assert (found.cause, found.at) == root
    assert len(found.others) == len(others)


def test_others_are_named_up_to_twenty() -> None:
    """Ten thousand tasks may fail at once."""
    state = standing(workers(2), worker="running running")
    state.failures = [failure("program", float(n), f"worker:{n}") for n in range(10_000)]
    found = select_root_cause(state, state.failures[17])
    assert found.task == TaskId("worker", 0)
    assert len(found.others) == 21
    assert found.others[-1] == "and 9979 more"


def test_tasks_with_the_error_of_the_first_one_share_a_line() -> None:
    state = standing(workers(4), worker="running running running running")

    def fail(number: int) -> Failure:
        text = f"python: can't open file '/w/worker-{number}/x.py'"
        line = EvidenceLine(stream="err", number=3, text=text, ago=0.0, rule="script-missing")
        found = Diagnosis(kind=FailureKind.USER_CODE, meaning=LineMeaning.CAUSE, retry=False, evidence=(line,))
        return replace(failure("program", 5.0 + number, f"worker:{number}"), diagnosis=found)

    same = [fail(number) for number in (0, 3, 2)]
    state.failures = [*same, failure("program", 9.5, "worker:1")]
    others = select_root_cause(state, same[0]).others
    assert others == ("worker:2-3: the same error", "worker:1 program at 9.5")


@pytest.mark.parametrize(
    ("limit", "root"), [("execution-timeout", "program"), ("hang", "program"), ("startup-timeout", "startup-timeout")]
)
def test_an_error_after_which_a_program_hung_until_a_time_limit_is_the_root_cause(limit: str, root: str) -> None:
    state = standing(workers(2), worker="running running")
    line = EvidenceLine(stream="err", number=3, text="KeyError: 'x'", ago=5.0, rule="python-code")
    found = Diagnosis(kind=FailureKind.USER_CODE, meaning=LineMeaning.CAUSE, retry=False, evidence=(line,))
    first = failure(limit, 9.0)
    state.failures = [first, replace(failure("program", 9.5, "worker:1"), diagnosis=found)]
    assert select_root_cause(state, first).cause == root
