"""An AM that cannot start is given up when commands have seen that for long enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schedulers.kubernetes.test_pod_status import waiting
from tony import clock
from tony.model.state_directory import Home, JobFolder
from tony.schedulers.kubernetes.am_start_failure import describe_pending, find_am_start_failure, has_lasted
from tony.schedulers.kubernetes.pod_status import find_start_failure


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    found = Home(tmp_path).job("job-1")
    found.path.mkdir(parents=True)
    return found


@pytest.mark.parametrize(
    ("reason", "message", "age", "is_given_up"),
    [
        ("ErrImageNeverPull", "", 0, True),
        ("ErrImagePull", "manifest unknown", 59, False),
        ("ErrImagePull", "manifest unknown", 61, True),
        ("ErrImagePull", "reading r.io/unknown/x: i/o timeout", 899, False),
        ("ErrImagePull", "429 Too Many Requests: You have reached your unauthenticated pull rate limit", 899, False),
        ("ErrImagePull", f"{'x' * 700}: code = NotFound", 61, True),
        ("ErrImagePull", "429 Too Many Requests", 901, True),
        ("ContainerCreating", "", 1900, False),
    ],
)
def test_a_failure_lasts(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch, reason: str, message: str, age: float, *, is_given_up: bool
) -> None:
    """A minute if the registry refuses; longer, if it had no time for the image."""
    failure = find_start_failure(waiting(reason, message, image="r.io/unknown/x"))
    now = [1000.0]
    monkeypatch.setattr(clock, "wall", lambda: now[0])
    first = has_lasted(folder, "uid-1", failure)
    now[0] += age
    assert has_lasted(folder, "uid-1", failure) is is_given_up
    assert first is (age == 0)


def test_a_pending_am_says_how_long_it_may_wait() -> None:
    assert describe_pending(waiting("ErrImagePull", "manifest unknown", image="x")).endswith(
        "manifest unknown; if that lasts for 1 m 00 s, the next command that follows the job, or asks for it, ends it"
    )
    node = waiting("CreateContainerError", "no such device")  # nothing moves the AM to another one
    assert describe_pending(node).endswith(
        "no such device; if that lasts for 15 m 00 s, the next command that follows the job, or asks for it, ends it"
    )
    never = waiting("ErrImageNeverPull", "")
    assert (failure := find_am_start_failure(never))
    assert describe_pending(never) == failure.text
    assert describe_pending(waiting("ContainerCreating", "")) == ""


def test_a_refusal_lasts_only_without_a_break(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while a pull may still succeed; and not by a clock that was wrong."""
    refused = find_start_failure(waiting("ErrImagePull", "no such host"))
    slow = find_start_failure(waiting("ErrImagePull", "i/o timeout"))
    now = [1_000_000.0]
    monkeypatch.setattr(clock, "wall", lambda: now[0])
    assert not has_lasted(folder, "uid-1", refused)
    now[0] = 1000.0
    for failure, age in ((refused, 0), (slow, 59), (refused, 700), (slow, 59)):
        now[0] += age
        assert not has_lasted(folder, "uid-1", failure)
    now[0] += 900
    assert has_lasted(folder, "uid-1", slow)


def test_a_failure_that_passed_or_of_another_pod_does_not_count(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = find_start_failure(waiting("ErrImagePull", "manifest unknown"))
    now = [1000.0]
    monkeypatch.setattr(clock, "wall", lambda: now[0])
    for pod, seen in (("uid-1", failure), ("uid-1", None), ("uid-1", failure), ("uid-2", failure)):
        assert not has_lasted(folder, pod, seen)
        now[0] += 100
    assert has_lasted(folder, "uid-2", failure)
    assert not has_lasted(Home(folder.path).job("of-another-machine"), "uid-1", failure)
