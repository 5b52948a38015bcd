"""What a cluster tells of its files is passed on exactly; nodes only learn what they can fetch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs, Trouble
from tony.config.load import load
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import ConnectError
from tony.model.job_spec import JobSpec
from tony.model.staged_files import InPlace, Placement, StagedItem, StagedJob, StagedRole
from tony.model.state_directory import Home
from tony.schedulers import registry
from tony.schedulers.yarn.client.artifacts import collect_in_place
from tony.schedulers.yarn.cluster_clients import ClusterClients
from tony.schedulers.yarn.launch_payload import Uploaded
from tony.storage.hdfs.hdfs_remote_files import HdfsFiles
from tony.storage.staging.remote_files_interface import RemoteFile, RemoteFileNotFoundError, RemoteFolder


@pytest.fixture
def hdfs() -> Iterator[FakeWebHdfs]:
    """A file system with a few files."""

    def file(data: bytes, bits: int) -> FakeFile:
        return FakeFile(content=data, permission=bits)

    folder = FakeFile
    with FakeWebHdfs(
        {
            "/": folder(),
            "/open": folder(),
            "/open/x": file(b"0123456789", 0o644),
            "/open/mine": file(b"", 0o640),
            "/open/sub": folder(),
            "/closed": folder(permission=0o750),
            "/closed/x": file(b"", 0o644),
        }
    ) as server:
        yield server


@contextmanager
def known(hdfs: FakeWebHdfs, *, in_place: bool = True) -> Iterator[HdfsFiles]:
    """Those of a cluster that knows two file systems, which are one."""
    given = {"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": f"127.0.0.1:{hdfs.port}"}
    other = {
        "dfs.nameservices": "other",
        "dfs.namenode.rpc-address.other": "elsewhere:8020",
        "dfs.namenode.http-address.other": f"127.0.0.1:{hdfs.port}",
    }
    cluster = ClusterClients.from_configuration(
        Configuration.load(None, {}, given={**given, **other}), {"HADOOP_USER_NAME": "ann"}
    )
    with closing(HdfsFiles(cluster, in_place=in_place)) as files:
        yield files


def test_files(hdfs: FakeWebHdfs) -> None:
    """Size and time are exact, the address is whole; all may share only what all may read."""
    with known(hdfs) as files:
        modified = hdfs.files["/open/x"].modified_ms
        expected = RemoteFile(address="hdfs://nn:8020/open/x", size=10, timestamp=modified, public=True)
        assert files.stat("hdfs:///open/x") == expected
        assert files.stat("hdfs://nn:8020/open/x") == expected
        found = files.stat("hdfs://other/open/x")
        assert isinstance(found, RemoteFile)
        assert found.address == "hdfs://other/open/x"
        assert found.key != expected.key
        for path in ("/open/mine", "/closed/x"):
            found = files.stat(f"hdfs://{path}")
            assert isinstance(found, RemoteFile)
            assert not found.public
        assert files.stat("hdfs:///open") == RemoteFolder(
            files=(
                RemoteFile(address="hdfs://nn:8020/open/mine", size=0, timestamp=modified),
                RemoteFile(address="hdfs://nn:8020/open/x", size=10, timestamp=modified, public=True),
            ),
            folders=("sub",),
        )
        with files.open(expected, 4) as stream:
            assert stream.read() == b"0123"


def test_fetched_files_are_private(hdfs: FakeWebHdfs) -> None:
    """The folders above are not checked for those."""
    with known(hdfs, in_place=False) as files:
        found = files.stat("hdfs:///open/x")
    assert isinstance(found, RemoteFile)
    assert not found.public
    assert hdfs.requests == [("GETFILESTATUS", "/open/x")]


def test_errors_of_remote_files(hdfs: FakeWebHdfs) -> None:
    """Missing, forbidden, an unknown file system: errors of the job file. One that is down is not."""
    with known(hdfs) as files:
        with pytest.raises(RemoteFileNotFoundError, match=r"hdfs://nn:8020/gone does not exist\."):
            files.stat("hdfs:///gone")
        hdfs.fail_next("GETFILESTATUS", Trouble.FORBIDDEN)
        with pytest.raises(ValueError, match=r"/open/x cannot be read: .*Permission denied"):
            files.stat("hdfs:///open/x")
        hdfs.fail_next("OPEN", Trouble.FORBIDDEN)
        with pytest.raises(ValueError, match="/open/x cannot be read"):
            files.open(RemoteFile(address="hdfs:///open/x", size=1, timestamp=1))
        with pytest.raises(ValueError, match="unknown file system"):
            files.stat("hdfs://a:port/x")
        with pytest.raises(ConnectError, match=r"It is hdfs://127\.0\.0\.1:1"):
            files.stat("hdfs://127.0.0.1:1/x")


def test_which_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the environment; without one it is said what to set."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    home = Home(tmp_path)
    with pytest.raises(ValueError, match="Set HADOOP_CONF_DIR"):
        registry.load("local").create_submitter(home).remote_files(JobSpec(), {})
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://nn</value></property></configuration>"
    )
    said = load(
        overrides={"command": "x", "scheduler": {"yarn": {"conf": str(tmp_path), "queue": "q"}}},
        site_files=(),
        environ={},
    )
    assert said.other_schedulers == {"yarn": {"conf": str(tmp_path), "queue": "q"}}
    assert not registry.load("local").create_submitter(home).remote_files(said.spec, said.other_schedulers).in_place
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert not registry.load("local").create_submitter(home).remote_files(said.spec, {}).in_place
    spec = JobSpec(scheduler="yarn", scheduler_settings={"conf": str(tmp_path)})
    assert registry.load("yarn").create_submitter(home).remote_files(spec, {}).in_place


def test_launch_contexts_list_remote_files_in_place() -> None:
    """With their addresses and the file systems whose tokens are needed; staged files are not among them."""
    there = InPlace(address="hdfs://other/a", timestamp=7, public=True)
    far = StagedItem(digest="a" * 64, size=3, name="a", placement=Placement.FILE, in_place=there)
    near = StagedItem(digest="b" * 64, size=3, name="b", placement=Placement.FILE)
    staged = StagedJob(roles={"one": StagedRole(items=(far, near)), "two": StagedRole(items=(far,))})
    assert collect_in_place(staged) == {"a" * 64: Uploaded(url="hdfs://other/a", size=3, timestamp=7, public=True)}
    assert staged.file_systems == ("hdfs://other",)
