"""The containers of the AM and of executors on YARN, seen from within."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schedulers.yarn.samples import payload
from tony.errors import PlatformError
from tony.hadoop.tokens import TokenCredentials, read_file, write_file
from tony.hadoop.wire.rpc import Token
from tony.protocol.launch import TaskLaunch
from tony.schedulers.yarn.containers import ContainerEnv, hadoop_variables, set_cluster_time
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


@pytest.mark.parametrize(
    ("told", "expected"), [("1795283199529", 1795283199.529), ("", None), ("soon", None), ("-5", None), ("١", None)]
)
def test_the_job_began_when_yarn_took_it(tmp_path: Path, told: str, expected: float | None) -> None:
    """By YARN's clock; by the submitter's where YARN does not tell."""
    write_file(tmp_path / "tokens", TokenCredentials())
    environ = {
        "CONTAINER_ID": "container_1700000000000_0007_01_000001",
        "NM_HOST": "node-1",
        "LOG_DIRS": "/logs",
        "LOCAL_DIRS": "/local",
        "HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens"),
        "APP_SUBMIT_TIME_ENV": told,
    }
    inside = ContainerEnv.from_environ(environ)
    assert inside.submitted == expected
    given = payload()
    assert set_cluster_time(given, inside).record.submitted == (expected or given.record.submitted)


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ({"PATH": "/bin", "NM_HOST": "n1", "USER": ""}, {}),
        ({"USER": "ann", "JAVA_HOME": ""}, {"HADOOP_USER_NAME": "ann"}),
        ({"USER": "ann", "HADOOP_USER_NAME": "etl"}, {"HADOOP_USER_NAME": "etl"}),
        (
            {"HADOOP_CONF_DIR": "/etc/hadoop", "HADOOP_TOKEN_FILE_LOCATION": "/c/tokens", "LOCAL_DIRS": "/l"},
            {"HADOOP_CONF_DIR": "/etc/hadoop", "HADOOP_TOKEN_FILE_LOCATION": "/c/tokens"},
        ),
    ],
)
def test_of_hadoop(own: dict[str, str], given: dict[str, str]) -> None:
    """Settings, tokens and a Hadoop of its own, as far as they are set; and whose the container is."""
    assert hadoop_variables(own) == given
