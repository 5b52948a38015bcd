"""What lies in the cluster's file system already is used there, and what programs need of Hadoop is there for them."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.lab import Lab
from tests.yarn.lab import YarnLab
from tony.hadoop.configuration import Configuration
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.schedulers.yarn.cluster_clients import ClusterClients

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SCRIPT = b"#!/bin/sh\necho ran as $0\n"


def tar() -> bytes:
    """An archive with a program and a link to it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        program = tarfile.TarInfo("bin/run")
        program.mode, program.size = 0o755, len(SCRIPT)
        archive.addfile(program, io.BytesIO(SCRIPT))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "bin/run"
        archive.addfile(link)
    return made.getvalue()


def zipped() -> bytes:
    """The same as a zip; Java's own unpacking would lose the bits and the link."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, mode, data in (("bin/run", 0o755 | stat.S_IFREG, SCRIPT), ("link", 0o777 | stat.S_IFLNK, b"bin/run")):
            member = zipfile.ZipInfo(name)
            member.create_system, member.external_attr = 3, mode << 16
            archive.writestr(member, data)
    return made.getvalue()


@contextmanager
def folder(lab: YarnLab) -> Iterator[tuple[WebHdfs, str]]:
    """A folder of HDFS of the test's own."""
    place = f"/tmp/{lab.root.name}"
    with ClusterClients.from_configuration(Configuration.load(lab.cluster.conf, {}), {}).web_files() as files:
        yield files, place
        files.delete(place, recursive=True)


def test_files_in_place(lab: YarnLab) -> None:
    """Archives, files and what is right in a folder lie in each working directory, and nothing of it is uploaded.

    On one machine the same job has them fetched, once.
    """
    with folder(lab) as (hdfs, place):
        for name, data, bits in (
            ("a.tar.gz", tar(), 0o644),
            ("a.zip", zipped(), 0o600),
            ("lib/one.py", b"print('one')", 0o644),
            ("lib/two #3?.txt", b"two", 0o600),
            ("lib/deeper/three.txt", b"three", 0o644),
            ("run", SCRIPT, 0o644),
        ):
            hdfs.create(f"{place}/{name}", data, permission=bits)
        text = f"""
        command = "(data/link; zipped/link; ./run; cat two*; cat lib/two*; find . | sort) > $OUT/$JOB_NAME"
        source = "hdfs://{place}/a.tar.gz"
        files = [
            "hdfs://{place}/a.tar.gz::data#archive", "hdfs:{place}/a.zip::zipped#archive", "hdfs://{place}/lib::lib",
            "hdfs://{place}/lib", "hdfs://{place}/gone#optional",
        ]
        [roles.worker]
        files = ["{hdfs_name(lab)}{place}/run"]
        [roles.other]
        files = ["hdfs://{place}/run"]
        """
        job = lab.job(text)
        done = lab.submit(job, "--set", f"scheduler.yarn.staging={place}/staging")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"hdfs://{place}/gone does not exist" in done.stderr
        assert "only its files are copied: deeper" in done.stderr
        assert [name for name in lab.listed(f"{place}/staging/cache") if not name.startswith(".")] == [
            name for name in lab.listed(f"{place}/staging/cache") if name.endswith(".zip")
        ]
        on_yarn = lab.wrote("worker")
        assert on_yarn.splitlines()[:3] == ["ran as data/link", "ran as zipped/link", "ran as ./run"]
        assert "twotwo" in on_yarn
        assert "three" not in on_yarn
        assert lab.wrote("other") == on_yarn
        (lab.root / "here").mkdir()
        here = Lab(lab.root / "here")
        here.env["HADOOP_CONF_DIR"] = str(lab.cluster.conf)
        for fetched in (True, False):
            done = here.submit(job)
            assert done.returncode == 0, done.stdout + done.stderr
            assert ("run: 25 bytes\n" in done.stderr) == fetched
            assert lab.wrote("worker") == on_yarn
        here.close()


def hdfs_name(lab: YarnLab) -> str:
    """The default file system by its whole name."""
    return ClusterClients.from_configuration(Configuration.load(lab.cluster.conf, {}), {}).files.uri


def test_hadoop_for_programs(lab: YarnLab) -> None:
    """A JVM finds the job's jars and its node's Hadoop; all containers have the job's variables for them."""
    (lab.root / "own.jar").write_bytes(zipped())
    text = f"""
    command = '''
    echo "$CLASSPATH" > $OUT/classpath
    echo "$FROM_NODE|$BOTH|$HADOOP_OPTIONS" > $OUT/variables
    java -Xmx64m org.apache.hadoop.fs.FsShell -ls / > $OUT/listed || exit 5
    touch $OUT/looked; until [ -e $OUT/go ]; do sleep 0.1; done
    '''
    files = ["{lab.root}/own.jar"]
    hadoop_classpath = true
    [container_env]
    FROM_NODE = "$NM_HOST and ${{USER}}"
    BOTH = "container"
    HADOOP_OPTIONS = '-Dx="a b" `id` \\n $(id)'
    YARN_CONTAINER_RUNTIME_TYPE = "default"
    [roles.worker]
    memory = "512m"
    env = {{ BOTH = "program" }}
    """
    job = lab.detach(lab.job(text))
    lab.wait_wrote("looked")
    master = Path(f"/proc/{lab.master_of(job)}/environ").read_bytes().decode().split("\0")
    (lab.out / "go").touch()
    lab.wait(job)
    assert lab.status(job)["state"] == "succeeded"
    jars = lab.wrote("classpath").strip().split(":")
    assert jars[0] == "./*"
    assert jars[1].endswith("/work/worker-0/own.jar")
    assert jars[2] == str(lab.cluster.conf)
    assert any("hadoop-common-" in jar for jar in jars[3:])
    assert "/user" in lab.wrote("listed")
    from_node, both, options = lab.wrote("variables").strip().split("|")
    assert from_node.startswith("127.0.1.")
    assert (both, options) == ("program", r'-Dx="a b" `id` \n $(id)')
    assert "BOTH=container" in master
    assert "YARN_CONTAINER_RUNTIME_TYPE=default" in master
