"""What a program of ours finds out in a container of YARN."""

from pathlib import Path

import pytest

from tests.schedulers.yarn.samples import payload
from tony.errors import PlatformError
from tony.hadoop.tokens import TokenCredentials, read_file, write_file
from tony.hadoop.wire.rpc import Token
from tony.protocol.launch import TaskLaunch
from tony.schedulers.yarn.container_env import ContainerEnv
from tony.schedulers.yarn.launch_payload import JOB, TASK, JobPayload, encode_payload

HDFS = Token(identifier=b"who", password=b"proof", kind="HDFS_DELEGATION_TOKEN", service="10.0.0.1:8020")


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a NodeManager puts into the environment."""
    monkeypatch.chdir(tmp_path)
    tokens = tmp_path / "container_tokens"
    write_file(
        tokens, TokenCredentials(tokens={"hdfs": HDFS}, secrets={JOB: encode_payload(payload()), "theirs": b"kept"})
    )
    return {
        "CONTAINER_ID": "container_1700000000000_0007_01_000001",
        "NM_HOST": "node-1",
        "LOG_DIRS": "/logs/1,/logs/2",
        "LOCAL_DIRS": "/local/1,/local/2",
        "HADOOP_TOKEN_FILE_LOCATION": str(tokens),
    }


def test_look(environ: dict[str, str], tmp_path: Path) -> None:
    """Of several folders the first is ours."""
    inside = ContainerEnv.from_environ(environ)
    assert inside == ContainerEnv(
        container="container_1700000000000_0007_01_000001",
        host="node-1",
        folder=tmp_path,
        logs=Path("/logs/1"),
        shared=Path("/local/1/tony"),
        tokens=tmp_path / "container_tokens",
        credentials=inside.credentials,
    )
    assert inside.credentials.tokens == {"hdfs": HDFS}
    assert b"proof" not in repr(inside).encode()


@pytest.mark.parametrize("missing", ["CONTAINER_ID", "NM_HOST", "LOG_DIRS", "LOCAL_DIRS", "HADOOP_TOKEN_FILE_LOCATION"])
def test_no_container(environ: dict[str, str], missing: str) -> None:
    """Started by hand, it says what is missing."""
    del environ[missing]
    with pytest.raises(PlatformError, match=f"^not running in a YARN container: {missing} is not set$"):
        ContainerEnv.from_environ(environ)


def test_a_launch_payload_is_taken(environ: dict[str, str], tmp_path: Path) -> None:
    """It is removed from the file that the user's programs may read; everything else in it stays."""
    before = ContainerEnv.from_environ(environ)
    taken, inside = before.take_payload(JOB, JobPayload)
    assert taken == payload()
    left = read_file(tmp_path / "container_tokens")
    assert left == inside.credentials
    assert left.tokens == {"hdfs": HDFS}
    assert left.secrets == {"theirs": b"kept"}
    assert b"executors' key" not in (tmp_path / "container_tokens").read_bytes()
    assert (tmp_path / "container_tokens").stat().st_mode & 0o777 == 0o600
    assert not [path for path in tmp_path.iterdir() if path.name != "container_tokens"]


def test_a_missing_launch_payload_is_an_error(environ: dict[str, str]) -> None:
    """Neither none, nor another kind, nor one taken before."""
    inside = ContainerEnv.from_environ(environ)
    with pytest.raises(PlatformError, match=r"container_tokens.*tony\.task"):
        inside.take_payload(TASK, TaskLaunch)
    with pytest.raises(PlatformError, match="theirs"):
        inside.take_payload("theirs", TaskLaunch)
    with pytest.raises(PlatformError, match=r"no launch payload 'tony.job'"):
        inside.take_payload(JOB, JobPayload)[1].take_payload(JOB, JobPayload)


def test_plug_in(environ: dict[str, str], tmp_path: Path) -> None:
    """A framework's adapter that is not ours lies in the container's folder, wherever it was at the submitter's."""
    inside = ContainerEnv.from_environ(environ)
    assert inside.plug_in("/home/ann/lib") == str(tmp_path / "tony-framework")
    assert inside.plug_in(None) is None
