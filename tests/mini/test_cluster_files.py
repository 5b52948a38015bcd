"""The command `hadoop` of a small cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tony.mini.cluster_files import write_hadoop_commands
from tony.mini.layout import ClusterLayout


def hadoop(folder: Path, *words: str, name: str = "hadoop") -> subprocess.CompletedProcess[str]:
    """Runs it, with a Java that prints what is requested of it."""
    java, jars = folder / "java", folder / "jars"
    for each in (java / "bin", jars, folder / "mini" / "bin"):
        each.mkdir(parents=True, exist_ok=True)
    (jars / "a.jar").touch()
    (jars / "b.jar").touch()
    (java / "bin" / "java").write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    (java / "bin" / "java").chmod(0o755)
    places = ClusterLayout(folder / "mini")
    write_hadoop_commands(java, jars, places)
    return subprocess.run([places.bin / name, *words], capture_output=True, text=True, check=False)


def test_the_class_path(tmp_path: Path) -> None:
    """As Hadoop's own says it, in both forms."""
    assert hadoop(tmp_path, "classpath").stdout == f"{tmp_path}/mini/conf:{tmp_path}/jars/*\n"
    whole = f"{tmp_path}/mini/conf:{tmp_path}/jars/a.jar:{tmp_path}/jars/b.jar\n"
    assert hadoop(tmp_path, "classpath", "--glob").stdout == whole


def test_programs(tmp_path: Path) -> None:
    """Words and classes are Java programs of the cluster; arguments come through as they are."""
    said = hadoop(tmp_path, "dfs", "-ls", "/a b", name="hdfs").stdout.splitlines()
    assert said[-4:] == [f"{tmp_path}/mini/conf:{tmp_path}/jars/*", "org.apache.hadoop.fs.FsShell", "-ls", "/a b"]
    assert hadoop(tmp_path, "org.example.Main", "x").stdout.splitlines()[-2:] == ["org.example.Main", "x"]


def test_an_unknown_subcommand_is_refused(tmp_path: Path) -> None:
    done = hadoop(tmp_path, "distcp")
    assert (done.returncode, done.stdout) == (1, "")
    assert "unknown subcommand distcp; this small cluster has classpath, fs, dfs" in done.stderr
