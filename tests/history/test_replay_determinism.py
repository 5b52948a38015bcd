"""A log replays to the same digests in another process, whose sets and dictionaries have another order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import tony
from tests.core.random_jobs import Life
from tony.core import actions as act
from tony.core import events as ev
from tony.core.application import Application
from tony.core.deadline import Deadline, DeadlineKind
from tony.core.sentences import describe_opening
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter, settings_digest
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec, Role, Timeouts
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import RoleKind

OK = ExitStatus(reason=ExitReason.EXITED, code=0)
FAILED = ExitStatus(reason=ExitReason.EXITED, code=1, tail=("Traceback", "boom"))
STOPPED = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")
REPLAY = """
import json, pathlib, sys
from tony.history.event_log import read
from tony.history.replay import replay
from tony.model.codec import from_plain
from tony.model.job_spec import JobSpec
for folder in map(pathlib.Path, sys.argv[1:]):
    spec = from_plain(JobSpec, json.loads((folder / "spec.json").read_text()))
    done = replay("sim", spec, read([folder / "events.1.jsonl"]))
    print(json.dumps([done.events, done.checked, done.mismatch]))
"""


def elsewhere(seed: int, *folders: Path) -> list[list[object]]:
    """Events replayed, digests met and the first mismatch of each log, as another interpreter finds them."""
    source = Path(tony.__file__).parent.parent
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", REPLAY, *map(str, folders)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Recorder:
    """Writes what one machine is fed, with its digests."""

    def __init__(self, folder: Path, spec: JobSpec, every: int) -> None:
        folder.mkdir()
        (folder / "spec.json").write_text(json.dumps(to_plain(spec)), encoding="utf-8")
        header = Header(format=FORMAT, version=VERSION, job="sim", attempt=1, settings=settings_digest(spec))
        self.folder = folder
        self.writer = LogWriter(folder / "events.1.jsonl", header)
        self.events = self.digests = 0
        self._every = every

    def add(self, event: ev.Event, at: float, digest_of: Application) -> None:
        """One event, which the machine has just handled."""
        self._append(event, at)
        if self.events % self._every == 0:
            self._append(ev.Snapshot(digest=digest_of.compute_digest()), at)
            self.digests += 1

    def _append(self, event: ev.Event, at: float) -> None:
        self.events = self.writer.append(event, at, 1000.0 + at)


def record_life(folder: Path, seed: int) -> Recorder:
    """The log of a random life, with a digest after every third event."""
    life = Life(Random(seed))
    life.live(200, settings_digest(life.spec))
    life.end()
    twin = Application("sim", life.spec)
    recorder = Recorder(folder, life.spec, every=3)
    for event, at in life.cluster.log:
        twin.handle(event, at)
        recorder.add(event, at, twin)
    recorder.writer.close()
    return recorder


def long_life(spec: JobSpec, app: Application) -> Iterator[tuple[ev.Event, float]]:
    """Sessions of many tasks, each of which fails by its first task but for the last; reports come in any order."""
    chance, now, made = Random(1), 0.0, 0
    held: dict[str, str] = {}
    todo: list[ev.Event] = [
        ev.AttemptStarted(attempt=1, wall=1000.0, settings=settings_digest(spec)),
        ev.ReconcileClosed(),
    ]
    while todo:
        if len(todo) > 3:
            chance.shuffle(todo)
        batch, todo = todo, []
        for event in batch:
            now = at = now + 0.001
            for action in app.handle(event, at):
                match action:
                    case act.OpenSession(session=session, reason=reason):
                        todo.append(ev.SessionOpened(session=session, reason=describe_opening(reason)))
                    case act.SetDemand(role=role, total=total):
                        for _ in range(total - sum(each == role for each in held.values())):
                            made += 1
                            held[f"c-{made}"] = role
                            todo.append(ev.Granted(container=f"c-{made}", role=role, host=f"h-{made % 97}"))
                    case act.Launch(task=task, session=session) | act.Renew(task=task, session=session):
                        container = app.state.tasks[task].container or ""
                        todo.append(
                            ev.Registered(
                                task=task,
                                container=container,
                                incarnation=f"i-{container}",
                                session=session,
                                address=f"h:{made}",
                            )
                        )
                    case act.Start(task=task, session=session):
                        todo.append(ev.Started(task=task, session=session, try_=1, pid=made))
                    case act.Stop(task=task, session=session):
                        todo.append(ev.Exited(task=task, session=session, try_=1, status=STOPPED, at=now))
                    case act.Release(container=container):
                        del held[container]
                        todo.append(ev.ContainerEnded(container=container, cause="released"))
                    case act.WakeAt(deadline=Deadline(kind=DeadlineKind.RESTART)) as wake:
                        now = wake.at
                        todo.append(ev.DeadlinePassed(deadline=Deadline.parse("restart")))
            yield event, at
            if isinstance(event, ev.Started):
                todo.append(ev.FirstOutput(task=event.task, session=event.session, try_=1))
            if isinstance(event, ev.FirstOutput):
                first, last = event.task.index == 0, event.session == spec.max_restarts + 1
                if first or last:
                    status = OK if last else FAILED
                    todo.append(ev.Exited(task=event.task, session=event.session, try_=1, status=status, at=now))


def record_long_life(folder: Path, tasks: int, restarts: int) -> Recorder:
    """The log of a job of many tasks, with a digest after as many events as it has tasks."""
    spec = JobSpec(
        command="x",
        roles={"worker": Role(instances=tasks), "board": Role(kind=RoleKind.SIDECAR)},
        max_restarts=restarts,
        timeouts=Timeouts(startup=1e6, execution=1e7),
    )
    app = Application("sim", spec)
    recorder = Recorder(folder, spec, every=tasks)
    for event, at in long_life(spec, app):
        recorder.add(event, at, app)
    recorder.writer.close()
    assert app.state.job.ended
    assert app.state.session == restarts + 1
    return recorder


@pytest.mark.parametrize("seed", [0, 4711])
def test_random_jobs_replay_in_another_process(seed: int, tmp_path: Path) -> None:
    """Every digest of thirty jobs matches, whatever the order of hashes."""
    records = [record_life(tmp_path / f"life-{number}", number) for number in range(30)]
    found = elsewhere(seed, *(record.folder for record in records))
    assert found == [[record.events, record.digests, None] for record in records]
    assert sum(record.digests for record in records) > 100


def test_a_long_job_replays_in_another_process(tmp_path: Path) -> None:
    """A few thousand events of a few hundred tasks."""
    record = record_long_life(tmp_path / "long", tasks=300, restarts=2)
    assert elsewhere(99, record.folder) == [[record.events, record.digests, None]]
    assert (record.events > 3000, record.digests > 10) == (True, True)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_very_long_job_replays_in_another_process(seed: int, tmp_path: Path) -> None:
    """A hundred thousand events of ten thousand tasks."""
    record = record_long_life(tmp_path / "long", tasks=10_000, restarts=2)
    assert record.events > 100_000
    assert elsewhere(seed, record.folder) == [[record.events, record.digests, None]]
