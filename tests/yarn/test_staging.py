"""What goes to the cluster's file system and from there to programs: sources, files, archives, environments."""

from __future__ import annotations

import pytest

from tests.mini_clusters import run_tool
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


def test_no_staging_in_safe_mode(lab: YarnLab) -> None:
    """Nothing can be written there: told in a sentence, exit 3, no application; afterwards the same command works."""
    _, sets = staged_at(lab)
    job, before = lab.job('command = "true"\n', {"data": "1"}), lab.applications()
    admin = "org.apache.hadoop.hdfs.tools.DFSAdmin"
    assert run_tool(lab.cluster, admin, "-safemode", "enter").returncode == 0
    try:
        done = lab.submit(job, *sets)
    finally:
        assert run_tool(lab.cluster, admin, "-safemode", "leave").returncode == 0
    assert done.returncode == 3, done.stdout + done.stderr
    assert "safe mode" in done.stderr
    assert (lab.jobs(), lab.applications()) == ([], before)
    done = lab.submit(job, *sets)
    assert done.returncode == 0, done.stdout + done.stderr
