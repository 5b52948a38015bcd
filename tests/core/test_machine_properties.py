"""Random lives of random jobs: whatever order things happen in, the machine keeps its guarantees and the log tells all.

A life is a number. `lived(7)` is the life that a failing test names.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.log_explanations import unexplained
from tests.core.random_jobs import Life, random_job
from tests.support.simulation import Simulation
from tony.core import events as ev
from tony.core.report_builder import ReportContext, build_report
from tony.history.event_log import VERSION, Header, LogEntry, LogWriter, read, settings_digest
from tony.history.replay import replay
from tony.model.job_spec import Timeouts

#: Events between two digests in the logs of these jobs.
SNAPSHOT_INTERVAL_EVENTS = 5
AROUND = ReportContext(folder="/jobs/sim", user="ann", submitted=1000.0, live={})


def lived(chance: Random, folder: Path) -> Life:
    """A whole life, with everything that must hold of it."""
    life = Life(chance)
    life.live(chance.randint(0, 250), settings_digest(life.spec))
    life.end()
    life.drain()
    check_end(life.cluster)
    check_log(life.cluster, folder)
    return life


def check_end(cluster: Simulation) -> None:
    """Nothing is left except unreachable executors, and the result follows from the events."""
    assert unexplained(cluster.finished, [event for event, _ in cluster.log], cluster.app.state) == []
    assert cluster.app.state.containers == {}
    if not cluster.deaf:
        left = [e.task for e in cluster.executors.values() if e.program and e.container not in cluster.given_up]
        assert (cluster.containers, left) == ({}, [])


def check_log(cluster: Simulation, folder: Path) -> None:
    """Written and read back, the log is every event once, in order; replayed, it meets every digest and the report."""
    path = folder / "events.1.jsonl"
    spec = cluster.app.state.spec
    header = Header(format="tony-events", version=VERSION, job="sim", attempt=1, settings=settings_digest(spec))
    writer = LogWriter(path, header)
    fed: list[ev.Event] = []
    for number, (event, at) in enumerate(cluster.log):
        if number and number % SNAPSHOT_INTERVAL_EVENTS == 0:
            before = cluster.log[number - 1][1]  # its own time, for the machine that lived it has not heard of it
            fed.append(ev.Snapshot(digest=cluster.digests[number - 1]))
            writer.append(fed[-1], before, 1000.0 + before)
        fed.append(event)
        writer.append(event, at, 1000.0 + at)
    fed.append(ev.Snapshot(digest=cluster.digests[-1]))
    writer.append(fed[-1], cluster.now, 1000.0 + cluster.now)
    writer.close()
    entries: list[LogEntry] = list(read([path]))
    path.unlink()
    assert [entry.event for entry in entries] == fed
    assert [entry.seq for entry in entries] == list(range(1, len(fed) + 1))
    result = replay("sim", spec, entries)
    assert (result.mismatch, result.events) == (None, len(fed))
    assert result.checked == sum(isinstance(event, ev.Snapshot) for event in fed)
    assert build_report(result.app, cluster.now, AROUND) == build_report(cluster.app, cluster.now, AROUND)


@contextmanager
def named(seed: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"in life {seed}")
        raise


@pytest.mark.parametrize("block", range(6))
def test_every_simulated_job_ends_and_keeps_every_guarantee(block: int, tmp_path: Path) -> None:
    """Invariants and guarantees hold after each event, the job ends with its true reason, and its log replays."""
    for seed in range(block * 50, (block + 1) * 50):
        with named(seed):
            lived(Random(seed), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("block", range(1, 41))
def test_thousands_of_lives(block: int, tmp_path: Path) -> None:
    """As above, so often that the rare coincidences come as well."""
    for seed in range(block * 1000, (block + 1) * 1000):
        with named(seed):
            lived(Random(seed), tmp_path)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_lives_that_are_sought_for_trouble(chance: Random) -> None:
    """The same under a searcher that also makes what it finds small."""
    with tempfile.TemporaryDirectory() as folder:
        lived(chance, Path(folder))


@pytest.mark.parametrize("seed", range(60))
def test_without_bad_luck_a_job_succeeds(seed: int) -> None:
    """Programs that all succeed make a successful job, under every policy and start order, in any order of events."""
    chance = Random(seed)
    spec = random_job(chance)
    patient = {name: replace(role, timeout_after=None) for name, role in spec.roles.items()}
    life = Life(chance, replace(spec, roles=patient, timeouts=Timeouts(registration=None)), faults=())
    life.live(chance.randint(0, 100))
    life.end()
    assert life.cluster.finished
    assert life.cluster.finished.exit_code == 0
