"""What goes to the cluster's file system and from there to programs: sources, files, archives, environments."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.yarn.lab import YarnLab

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Bytes that a second submission of a job may leave in the file system besides its event log.
SECOND = 20_000
#: What lies in the cache: `tony`, what serves its pages, and the source.
CACHED = 3


def staged_at(lab: YarnLab) -> tuple[str, list[str]]:
    """A staging folder of this test alone, and the setting for it."""
    place = f"/tmp/{lab.root.name}"
    return place, ["--set", f"scheduler.yarn.staging={place}"]


def test_a_second_submission_sends_its_record_only(lab: YarnLab) -> None:
    """The first one brings programs and source; the second one adds nothing to the cache, and its job file is small."""
    place, sets = staged_at(lab)
    job = lab.job('command = "cat data > $OUT/said"\n', {"data": "x" * 100_000})
    first = lab.submit(job, *sets)
    assert first.returncode == 0, first.stdout + first.stderr
    assert lab.wrote("said") == "x" * 100_000
    cache = lab.stat(f"{place}/cache")
    assert len([name for name in cache if not name.startswith(".")]) == CACHED
    assert not [name for name in cache if name.endswith(".part")]
    (lab.out / "said").unlink()
    second = lab.submit(job, *sets)
    assert second.returncode == 0, second.stdout + second.stderr
    assert lab.wrote("said") == "x" * 100_000
    assert lab.stat(f"{place}/cache") == cache
    newest = lab.jobs()[-1]
    lab.wait_application(newest)
    record = lab.kept(f"{place}/jobs/{newest}")
    assert {"job.json", "events.1.jsonl", "am.log", "summary.json"} == set(record)
    assert sum(record.values()) < SECOND
    other = lab.detach(lab.job('command = "true"\n', {"data": "y"}), *sets)
    lab.wait(other)
    assert len(lab.stat(f"{place}/cache")) == len(cache) + 1


def test_files_under_other_names_and_archives(lab: YarnLab) -> None:
    """Renamed, in a folder, unpacked; of a role, of the job; two roles with different files of one name."""
    project = lab.file("job.toml", "").parent
    for name in ("one", "two"):
        (project / name).mkdir()
        (project / name / "config.ini").write_text(name)
    with zipfile.ZipFile(project / "data.zip", "w") as archive:
        archive.writestr("inner/a.txt", "zipped")
    with tarfile.open(project / "more.tar.gz", "w:gz") as tar:
        tar.add(project / "one", "folder")
    text = """
    command = "ls -R > $OUT/$JOB_NAME.list; cat settings/own.ini data/inner/a.txt > $OUT/$JOB_NAME"
    files = ["data.zip::data#archive"]
    [roles.left]
    files = ["one/config.ini::settings/own.ini", "more.tar.gz#archive"]
    [roles.right]
    files = ["two/config.ini::settings/own.ini"]
    """
    done = lab.submit(lab.job(text))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (lab.wrote("left"), lab.wrote("right")) == ("onezipped", "twozipped")
    assert "config.ini" in lab.wrote("left.list")
    assert "more" not in lab.wrote("right.list")


def test_an_environment_in_an_archive(lab: YarnLab) -> None:
    """A virtual environment with a module that no node has: programs run in it, as `python`."""
    folder = lab.root / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "only_here.py").write_text("word = 'found'\n")
    project = lab.file("job.toml", "").parent
    with tarfile.open(project / "environment.tar.gz", "w:gz") as tar:
        tar.add(folder, ".")
    program = """
    import os, sys
    import only_here
    open(os.environ["OUT"] + "/said", "w").write(f"{only_here.word} {sys.prefix}")
    """
    job = lab.job('command = "python x.py"\npython = "environment.tar.gz"\n', {"x.py": program})
    done = lab.submit(job)
    assert done.returncode == 0, done.stdout + done.stderr
    word, prefix = lab.wrote("said").split()
    assert word == "found"
    assert not Path(prefix).is_relative_to(lab.root)


def test_no_staging_in_safe_mode(lab: YarnLab) -> None:
    """Nothing can be written there: told in a sentence, exit 3, no application; afterwards the same command works."""
    _, sets = staged_at(lab)
    job, before = lab.job('command = "true"\n', {"data": "1"}), lab.applications()
    admin = "org.apache.hadoop.hdfs.tools.DFSAdmin"
    assert lab.cluster.tool(admin, "-safemode", "enter").returncode == 0
    try:
        done = lab.submit(job, *sets)
    finally:
        assert lab.cluster.tool(admin, "-safemode", "leave").returncode == 0
    assert done.returncode == 3, done.stdout + done.stderr
    assert "safe mode" in done.stderr
    assert (lab.jobs(), lab.applications()) == ([], before)
    done = lab.submit(job, *sets)
    assert done.returncode == 0, done.stdout + done.stderr
