"""What goes to a container beside its command comes out as it went in, and says nothing of itself by accident."""

import pytest

from tests.schedulers.yarn.samples import SOURCE, papers, uploaded
from tony.dataclass import replace
from tony.model.staged import StagedRole
from tony.schedulers.yarn.launch_payload import JobPayload, TaskPayload, packed, unpacked
from tony.testing.sample_jobs import credentials, task_part, two_roles


def test_job() -> None:
    """The application master's, every field."""
    assert unpacked(JobPayload, packed(papers())) == papers()


def test_task() -> None:
    """An executor's."""
    task = task_part(two_roles(), "application_1_0001", "container_1", "worker", 2)
    given = TaskPayload(task=task, credentials=credentials(), staged=StagedRole(items=(SOURCE,)))
    assert unpacked(TaskPayload, packed(given)) == given


def test_newer_fields_are_ignored() -> None:
    """A job may have been submitted by another version of ours."""
    given = packed(papers()).replace(b'{"record":', b'{"moon":"full","record":', 1)
    assert unpacked(JobPayload, given) == papers()


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b'{"record":null}', b"[" * 100_000])
def test_what_is_no_papers(data: bytes) -> None:
    """Anything else is refused in one way."""
    with pytest.raises(ValueError):  # noqa: PT011 - every ValueError is right
        unpacked(JobPayload, data)


def test_secrets_are_not_printed() -> None:
    """Neither of the job nor of a task."""
    task = task_part(two_roles(), "application_1_0001", "container_1", "worker", 0)
    secret = credentials()
    shown = repr(TaskPayload(task=task, credentials=secret, staged=StagedRole())) + repr(papers())
    assert secret.token not in shown
    assert "0" * 64 not in shown
    assert "key" not in repr(papers().credentials)


def test_programs() -> None:
    """What every container gets, by the folder that it becomes; what the job has none of is left out."""
    assert papers().programs == {
        "tony": uploaded("runtime.zip", public=True),
        "tony-python": uploaded("python.tar.gz"),
        "tony-framework": uploaded("plug-in.zip"),
    }
    assert list(replace(papers(), interpreter=None, plug_in=None).programs) == ["tony"]
