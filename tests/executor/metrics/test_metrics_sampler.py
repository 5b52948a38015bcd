"""What an executor measures of a real program; when samples are made, and where they go."""

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.event_records import VERSION, framed, scalar
from tests.executor.fake_am import Master
from tests.support.waiting import wait_until
from tony import clock
from tony.executor.metrics.metrics_sampler import MetricsSampler, Outbox
from tony.executor.metrics.progress_listener import ProgressListener
from tony.executor.output.log_file import BoundedLogFile
from tony.executor.output.output_capture import Stream
from tony.executor.output.writer_thread import WriterThread
from tony.executor.program.progress_folder import build_path
from tony.linux.process_usage import ProcessUsage
from tony.model.metric_definitions import series_of
from tony.protocol import executor_messages as msg
from tony.protocol.executor_messages import Sample, Saved

#: Ends when the file `end` is there.
_WAIT = "import os, time\nwhile not os.path.exists('end'): time.sleep(0.01)\n"


def start(master: Master, guest: Start, program: str, interval: float = 0.1, **more: object) -> None:
    """Runs a Python program that is measured."""
    master.sample_interval = interval
    guest((sys.executable, "-c", program), **more)
    master.wait(msg.Ready)
    master.start()


def end(master: Master, folder: Path) -> None:
    """Lets it end, and waits for that."""
    (folder / "work/end").touch()
    assert master.wait(msg.ProgramExited).status.ok


@pytest.mark.slow
def test_a_program_is_measured(master: Master, guest: Start, tmp_path: Path) -> None:
    """Every metric has its usual name; child processes are included, and rates come with the first sample."""
    burn = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
    start(master, guest, burn + _WAIT)
    # One process may use that much while it starts, before there is a child.
    busy = {"cpu": 0.1, "threads": 2}
    sample = master.wait(msg.Sample, lambda it: all(it.values.get(name, 0) >= least for name, least in busy.items()))
    assert (sample.session, sample.try_) == (1, 1)
    assert all(series_of(name) for name in sample.values)
    assert {"cpu", "rss", "threads", "files", "major-faults", "disk-read", "disk-write"} <= sample.values.keys()
    assert sample.values["rss"] > 4 << 20
    assert any("pss" in each.values for each in master.all(msg.Sample))
    end(master, tmp_path)


@pytest.mark.slow
def test_a_program_reports_its_progress(master: Master, guest: Start, tmp_path: Path) -> None:
    """Step, total and its own numbers come with a sample; a checkpoint comes once, and with its time."""
    tell = "import tony\ntony.progress(3, 10, loss=0.5)\n"
    save = "with tony.checkpoint(3): time.sleep(0.05)\n"
    start(master, guest, tell + _WAIT + save)
    sample = master.wait(msg.Sample, lambda sample: "step" in sample.values)
    told = {name: sample.values[name] for name in ("step", "total", "user.loss")}
    assert told == {"step": 3, "total": 10, "user.loss": 0.5}
    assert sample.first_step == 3
    assert 0 <= sample.step_ago <= sample.first_ago < 30
    later = master.wait(msg.Sample, lambda each: each.first_ago > sample.first_ago)
    assert (later.values["step"], later.first_step) == (3, 3), "what it said last holds"
    end(master, tmp_path)
    saved = [each for sample in master.all(msg.Sample) for each in sample.saved]
    assert [each.step for each in saved] == [3]
    assert saved[0].took >= 0.05
    kinds = [type(each) for each in master.messages if isinstance(each, msg.Sample | msg.ProgramExited)]
    assert kinds[-1] is msg.ProgramExited


class Used(ProcessUsage):
    """Says one number, and perhaps takes its time."""

    def __init__(self, look: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._do = look
        self.looks = 0

    def measure(self, pids: Sequence[int]) -> dict[str, float]:
        self.looks += 1
        self._do()
        return {"cpu": float(len(pids))}


class Hearer:
    """Who gets the samples; deaf, if the test wants that."""

    def __init__(self) -> None:
        self.deaf = False
        self.heard: list[Sample] = []

    def __call__(self, sample: Sample) -> bool:
        if not self.deaf:
            self.heard.append(sample)
        return not self.deaf

    @property
    def saved(self) -> list[int]:
        return [each.step for sample in self.heard for each in sample.saved]


def measuring(
    hearer: Hearer, used: ProcessUsage, progress: ProgressListener | None = None, interval: float = 0.01
) -> MetricsSampler:
    return MetricsSampler(2, 3, lambda: interval, lambda: [1, 2], Outbox(hearer), used, progress)


async def test_samples_come_again_and_again() -> None:
    """With their session and try, until it has ended; what says nothing new at the end is not said."""
    hearer, used = Hearer(), Used()
    of = measuring(hearer, used)
    running = asyncio.ensure_future(of.run())
    await wait_until(lambda: len(hearer.heard) >= 3)
    running.cancel()
    await of.finish()
    assert all((each.session, each.try_, each.values) == (2, 3, {"cpu": 2.0}) for each in hearer.heard)
    assert all(0 <= each.ago < 60 for each in hearer.heard)


async def test_without_an_interval_nothing_is_looked_at() -> None:
    hearer, used = Hearer(), Used()
    of = measuring(hearer, used, interval=0.0)
    await of.run()
    await of.finish()
    assert (hearer.heard, used.looks) == ([], 0)


async def test_expensive_samples_are_taken_less_often() -> None:
    """A sample that takes a tenth of a second of a core is not followed by another one within seconds."""

    def burn() -> None:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass

    hearer, used = Hearer(), Used(burn)
    of = measuring(hearer, used)
    running = asyncio.ensure_future(of.run())
    await wait_until(lambda: hearer.heard)
    assert of._pause >= 20
    running.cancel()
    await of.finish()


async def test_a_hanging_sample_delays_neither_heartbeats_nor_the_exit() -> None:
    """The exit for a moment at most."""
    let_go = threading.Event()
    hearer, used = Hearer(), Used(lambda: let_go.wait(60))
    of = measuring(hearer, used)
    running = asyncio.ensure_future(of.run())
    await wait_until(lambda: used.looks)
    running.cancel()
    began = clock.monotonic()
    await of.finish()
    assert clock.monotonic() - began < 50
    assert hearer.heard == []
    let_go.set()


async def test_a_look_that_fails_ends_no_program(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """It is given up, and said; what the program tells of its checkpoints is still told."""

    def fail() -> None:
        raise ValueError("the kernel speaks in tongues")

    hearer, progress = Hearer(), ProgressListener(lambda pid, uid: True, tmp_path, build_path("TONY_TASK=x"))
    of = measuring(hearer, Used(fail), progress)
    await of.run()
    progress._socket.sendto(b"c\t1\t1\t1", progress.path)
    await of.finish()
    progress.close()
    assert hearer.saved == [1]
    assert "is disabled" in caplog.text


async def test_checkpoints_wait_for_a_connection(tmp_path: Path) -> None:
    """A sample without a connection is lost; each checkpoint is reported once, also after the program has exited."""
    hearer = Hearer()
    progress = ProgressListener(lambda pid, uid: True, tmp_path, build_path("TONY_TASK=x"))
    of = measuring(hearer, Used(), progress)
    tell = progress._socket  # by itself: it is a socket like any other
    hearer.deaf = True
    for step in range(3):
        tell.sendto(f"c\t{step}\t{clock.monotonic()}\t0.5".encode(), progress.path)
        of._send({"cpu": 1.0}, 0.0)
    hearer.deaf = False
    of._send({"cpu": 2.0}, 0.0)
    assert (hearer.saved, [each.values for each in hearer.heard]) == ([0, 1, 2], [{"cpu": 2.0}])
    hearer.deaf = True
    tell.sendto(f"c\t7\t{clock.monotonic()}\t0.5".encode(), progress.path)
    await of.finish()
    progress.close()
    hearer.deaf = False
    of._outbox.catch_up()
    of._outbox.catch_up()
    assert hearer.saved == [0, 1, 2, 7]


async def test_the_last_progress_waits_for_a_connection(tmp_path: Path) -> None:
    """A program that exits while no AM is connected: its last step and checkpoints are reported afterwards."""
    hearer, progress = Hearer(), ProgressListener(lambda pid, uid: True, tmp_path, build_path("TONY_TASK=x"))
    of = measuring(hearer, Used(), progress)
    name = progress.path
    hearer.deaf = True
    progress._socket.sendto(b"p\t300\t1000", name)
    for step in range(150):
        progress._socket.sendto(b"c\t%d\t1\t1" % step, name)
        of._send(of._collect_progress(), 0.0)
    await of.finish()
    progress.close()
    hearer.deaf = False
    of._outbox.catch_up()
    assert [each.values for each in hearer.heard] == [{"step": 300.0, "total": 1000.0}, {}]
    assert hearer.saved == list(range(150))


def test_a_delayed_sample_has_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are sent as ages, which grow."""
    now = 100.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    hearer = Hearer()
    hearer.deaf = True
    outbox = Outbox(hearer)
    saved = (Saved(step=1, ago=1.0, took=0.5),)
    outbox.keep(Sample(session=1, try_=1, ago=0.0, values={}, saved=saved, first_step=0.0, first_ago=9.0, step_ago=3.0))
    outbox.catch_up()
    assert hearer.heard == []
    now = 105.0
    hearer.deaf = False
    outbox.catch_up()
    (sample,) = hearer.heard
    assert (sample.ago, sample.first_ago, sample.step_ago) == (5.0, 14.0, 8.0)
    assert sample.saved == (Saved(step=1, ago=6.0, took=0.5),)


async def test_progress_reported_by_the_program_wins(tmp_path: Path) -> None:
    """Then its output, then its TensorBoard files; numbers of only one of these are all reported."""
    hearer, progress = Hearer(), ProgressListener(lambda pid, uid: True, tmp_path, build_path("TONY_TASK=x"))
    stream = Stream(BoundedLogFile(tmp_path / "out", 1 << 16), WriterThread(), lambda: None)
    of = MetricsSampler(
        2,
        3,
        lambda: 0.01,
        list,
        Outbox(hearer),
        Used(),
        progress,
        pattern=r"step (?P<step>\d+)(?: loss (?P<loss>\S+))?",
        streams=[stream],
        summaries=tmp_path,
    )
    (tmp_path / "x.tfevents").write_bytes(VERSION + framed(scalar(1, acc=0.5, loss=9.0)))

    def values() -> dict[str, float]:
        of._take_sample()
        of._send(of._collect_progress(), 0.0)
        return dict(hearer.heard[-1].values)

    assert values() == {"step": 1.0, "user.acc": 0.5, "user.loss": 9.0}
    stream._keep(b"step 20 loss 0.25\n")
    assert values() == {"step": 20.0, "user.acc": 0.5, "user.loss": 0.25}
    progress._socket.sendto(b"p\t300\t1000", progress.path)
    assert values() == {"step": 300.0, "total": 1000.0, "user.acc": 0.5, "user.loss": 0.25}
    with (tmp_path / "x.tfevents").open("ab") as file:
        file.write(framed(scalar(2, acc=0.75)))
    assert values() == {"step": 300.0, "total": 1000.0, "user.acc": 0.75, "user.loss": 0.25}
    assert hearer.heard[-1].first_step == 1.0
    stream.close()
    progress.close()


async def test_a_sample_has_the_first_printed_step(tmp_path: Path) -> None:
    """A restarted program continues there, however many steps it has made before the first sample."""
    hearer = Hearer()
    stream = Stream(BoundedLogFile(tmp_path / "out", 1 << 16), WriterThread(), lambda: None)
    of = MetricsSampler(
        2, 3, lambda: 0.01, list, Outbox(hearer), Used(), pattern=r"step (?P<step>\d+)", streams=[stream]
    )
    stream._keep(b"step 11\nstep 12\n")
    of._send(of._collect_progress(), 0.0)
    stream._keep(b"step 13\n")
    of._send(of._collect_progress(), 0.0)
    assert [(each.first_step, each.values["step"]) for each in hearer.heard] == [(11.0, 12.0), (11.0, 13.0)]
    stream.close()


async def test_a_new_step_does_not_wait_for_the_next_look(tmp_path: Path) -> None:
    """It is sent once, with the program's own metrics; what is used is looked at no more often for that."""
    hearer, used = Hearer(), Used()
    progress = ProgressListener(lambda pid, uid: True, tmp_path, build_path("TONY_TASK=x"))
    progress.begin()
    of = MetricsSampler(2, 3, lambda: 60.0, lambda: [1], Outbox(hearer), used, progress, lambda: 0.01)
    running = asyncio.ensure_future(of._report_steps_until(clock.monotonic() + 60.0))
    for step in (1, 2):
        tell(progress, f"p\t{step}\t10\tloss=0.5")
        wanted = {"step": float(step), "total": 10.0, "user.loss": 0.5}
        await wait_until(partial(is_newest, hearer, wanted))
    running.cancel()
    assert [each.values["step"] for each in hearer.heard] == [1, 2]
    assert used.looks == 0
    progress.close()


def is_newest(hearer: Hearer, values: dict[str, float]) -> bool:
    return bool(hearer.heard) and hearer.heard[-1].values == values


def tell(progress: ProgressListener, text: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(text.encode(), progress.path)
