"""What goes to a container beside its command comes out as it went in, and says nothing of itself by accident."""

import pytest

from tests.schedulers.yarn.samples import SOURCE, payload
from tony.model.staged_files import StagedRole
from tony.protocol.launch import TaskLaunch
from tony.schedulers.yarn.launch_payload import JobPayload, decode_payload, encode_payload
from tony.testing.sample_jobs import build_credentials, build_task_part, build_two_roles


def test_job() -> None:
    assert decode_payload(JobPayload, encode_payload(payload())) == payload()


def test_task() -> None:
    task = build_task_part(build_two_roles(), "application_1_0001", "container_1", "worker", 2)
    given = TaskLaunch(task=task, credentials=build_credentials(), staged=StagedRole(items=(SOURCE,)))
    assert decode_payload(TaskLaunch, encode_payload(given)) == given


def test_newer_fields_are_ignored() -> None:
    """A job may have been submitted by another version of ours."""
    given = encode_payload(payload()).replace(b'{"record":', b'{"moon":"full","record":', 1)
    assert decode_payload(JobPayload, given) == payload()


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b'{"record":null}', b"[" * 100_000])
def test_an_invalid_launch_payload_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - every ValueError is right
        decode_payload(JobPayload, data)


def test_secrets_are_not_printed() -> None:
    """Neither of the job nor of a task."""
    task = build_task_part(build_two_roles(), "application_1_0001", "container_1", "worker", 0)
    secret = build_credentials()
    shown = repr(TaskLaunch(task=task, credentials=secret, staged=StagedRole())) + repr(payload())
    assert secret.token not in shown
    assert "0" * 64 not in shown
    assert "key" not in repr(payload().credentials)
