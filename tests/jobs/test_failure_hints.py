"""What to do about errors whose text does not say it."""

from __future__ import annotations

import pytest

from tony.jobs.failure_text import find_hints
from tony.model.job_report import Failure, FailureCause, FailureClass


def _find(reason: str, *tail: str) -> list[str]:
    return find_hints(
        Failure(
            failure_class=FailureClass.USER,
            cause=FailureCause.PROGRAM,
            reason=f"worker:0: {reason}",
            session=1,
            at=1.0,
            tail=tail,
        )
    )


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: Attempt to convert a value (PerReplica:{",
        "}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor.",
    ],
)
def test_keras_3_under_a_strategy(line: str) -> None:
    (hint,) = _find("exit code 1", "...", line, "  [0. 0.]")
    assert 'TF_USE_LEGACY_KERAS = "1"' in hint


def test_other_errors_have_none() -> None:
    assert _find("exit code 1", "ValueError: no such column", "KeyError: 'PerReplica'") == []


def test_a_program_that_is_not_there() -> None:
    """The reason of a command that cannot be started, and the shell's last line."""
    (hint,) = _find("command not found: pyhton (not on PATH)")
    assert hint == "correct the command, or activate the environment that has it"
    assert _find("exit code 127", "sh: 1: pyhton: not found") == [hint]
