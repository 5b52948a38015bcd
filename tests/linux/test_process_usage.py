"""What processes use: real ones, and the counters of control groups in folders made for the test."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.waiting import block_until
from tony import clock
from tony.linux import container_cgroup, process_usage
from tony.linux.process_usage import ProcessUsage

#: Seconds until what must happen counts as never happening.
PATIENCE = 60.0
#: Does what standard input says, a line each: burns processor time, writes, forks a child that does so, ends.
PROGRAM = """\
import os, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "burn": burn(float(number))
    if word == "child":
        pid = os.fork()
        if pid == 0:
            burn(float(number))
            os._exit(0)
        os.waitpid(pid, 0)
    if word == "stay":
        pid = os.fork()
        if pid == 0:
            burn(float(number))
            print("burnt", os.getpid(), flush=True)
            time.sleep(600)
        continue
    if word == "wait": os.waitpid(-1, 0)
    if word == "open": files = [open(os.devnull) for _ in range(int(number))]
    if word == "write":
        with open(sys.argv[1], "wb") as file:
            file.write(bytes(int(number)))
            file.flush()
            os.fsync(file.fileno())
    print("done", flush=True)
"""


class Program:
    """A process that does what it is told."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", PROGRAM, str(folder / "written")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid

    def do(self, word: str, number: float | None = None) -> str:
        """Has it done, and answers what it says then."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{word} {number}\n" if number is not None else f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with ExitStack() as stack:
        made = Program(tmp_path)
        stack.enter_context(made.process)
        stack.callback(os.killpg, made.pid, signal.SIGKILL)
        yield made


def passed(used: ProcessUsage, pids: list[int]) -> tuple[dict[str, float], float]:
    """A look, and the seconds since the one before."""
    before = used._at
    values = used.measure(pids)
    assert before is not None
    assert used._at is not None
    return values, used._at - before


def test_usage_of_a_process(program: Program) -> None:
    """Processor time since it was started, open files, threads, memory."""
    used = ProcessUsage(since=clock.monotonic() - 10)  # it may have been started long ago
    program.do("burn", 0.3)
    before = used.measure([program.pid])
    program.do("open", 50)
    after = used.measure([program.pid])
    assert before["cpu"] * 10 == pytest.approx(0.3, abs=0.25)
    assert (before["threads"], after["files"] - before["files"]) == (1, 50)
    assert before["rss"] > 1 << 20
    assert 0 < before["pss"] <= before["rss"]


def test_the_first_sample_of_an_old_process_has_no_rate(program: Program) -> None:
    """Its use before the first sample does not count as current."""
    program.do("burn", 0.3)
    used = ProcessUsage()
    assert "cpu" not in used.measure([program.pid])
    values, seconds = passed(used, [program.pid])
    assert values["cpu"] * seconds < 0.2


def test_a_child_between_two_samples_counts(program: Program) -> None:
    """Its parent has inherited its usage."""
    used = ProcessUsage()
    used.measure([program.pid])
    program.do("child", 0.4)
    values, seconds = passed(used, [program.pid])
    assert values["cpu"] * seconds == pytest.approx(0.4, abs=0.2)


def test_a_child_that_was_seen_does_not_count_twice(program: Program) -> None:
    """What its parent inherits when it has ended was counted while it lived."""
    used = ProcessUsage()
    used.measure([program.pid])
    _, child = program.do("stay", 0.5).split()
    values, seconds = passed(used, [program.pid, int(child)])
    assert values["cpu"] * seconds == pytest.approx(0.5, abs=0.2)
    os.kill(int(child), signal.SIGKILL)
    program.do("wait")
    values, seconds = passed(used, [program.pid])
    assert values["cpu"] * seconds < 0.2
    program.do("child", 0.4)  # nor is anything owed for ever
    values, seconds = passed(used, [program.pid])
    assert values["cpu"] * seconds == pytest.approx(0.4, abs=0.2)


def test_a_zombie_that_is_not_seen_is_no_burst_later(program: Program) -> None:
    """One that has ended and is not waited for is missing in a look; when it is waited for, nothing is new."""
    used = ProcessUsage()
    used.measure([program.pid])
    _, child = program.do("stay", 0.5).split()
    used.measure([program.pid, int(child)])
    os.kill(int(child), signal.SIGKILL)
    block_until(lambda: Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    values, seconds = passed(used, [program.pid])
    assert values["cpu"] * seconds < 0.3
    program.do("wait")
    values, seconds = passed(used, [program.pid])
    assert values["cpu"] * seconds < 0.2


def test_bytes_written_are_counted(program: Program) -> None:
    """As the kernel accounts them, at the disk; a file system in memory has none."""
    used = ProcessUsage()
    used.measure([program.pid])
    program.do("write", 1 << 20)
    values, seconds = passed(used, [program.pid])
    assert values["disk-write"] * seconds == pytest.approx(1 << 20, rel=0.5) or values["disk-write"] == 0


def test_an_exited_process_has_no_usage() -> None:
    values = ProcessUsage().measure([(1 << 22) + 1])
    assert (values["rss"], values["threads"], values["files"]) == (0, 0, 0)


def test_pss_is_not_read_every_time(program: Program) -> None:
    """The kernel walks all pages for it."""
    used = ProcessUsage()
    assert "pss" in used.measure([program.pid])
    assert "pss" not in used.measure([program.pid])


def group(folder: Path, **files: str) -> str:
    """Files of a control group; `__` in a name is a dot."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return str(folder)


def test_shares_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for disks and the hypervisor; the time of guests, which is contained in that of users, does not count."""
    ticks = iter([[0] * 10, [50, 0, 10, 10, 20, 0, 0, 10, 50, 0], [50, 0, 10, 10, 20, 0, 0, 10, 50, 0], []])
    monkeypatch.setattr(process_usage, "_read_host_ticks", lambda: next(ticks))
    used = ProcessUsage(since=clock.monotonic() - 1)
    values = used.measure([])
    assert (values["iowait"], values["steal"]) == (0.2, 0.1)
    assert not {"iowait", "steal"} & {*used.measure([]), *used.measure([])}


def test_a_process_that_waits_for_a_processor(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = iter([1.0, 1.5])
    monkeypatch.setattr(process_usage, "_read_wait_seconds", lambda pid: next(waited))
    used = ProcessUsage(since=clock.monotonic())
    assert used.measure([program.pid])["cpu-wait"] == 0.0
    values, seconds = passed(used, [program.pid])
    assert values["cpu-wait"] == pytest.approx(min(1.0, 0.5 / seconds), rel=0.3)


V2 = "usage_usec {0}\nuser_usec 1\nnr_periods {1}\nnr_throttled {2}\nthrottled_usec {3}\n"


def test_a_group_counts_for_all_in_it(tmp_path: Path) -> None:
    """Version 2: processor time, faults, the share of time in which its limit stood in the way, kills since then."""
    folder = group(
        tmp_path / "g",
        cpu__max="50000 100000\n",
        cpu__stat=V2.format(1_000_000, 10, 1, 0),
        memory__stat="anon 5\npgmajfault 7\n",
        memory__events="oom 1\noom_kill 2\n",
    )
    used = ProcessUsage([folder], since=clock.monotonic() - 10)
    first = used.measure([])
    assert (first["oom-kills"], first["cpu"]) == (0, 0)
    group(
        tmp_path / "g",
        cpu__stat=V2.format(3_000_000, 110, 51, 900_000_000),
        memory__stat="anon 5\npgmajfault 9\n",
        memory__events="oom 2\noom_kill 5\n",
    )
    values, seconds = passed(used, [])
    assert values["cpu"] * seconds == pytest.approx(2.0, rel=0.2, abs=0.02)
    assert values["major-faults"] * seconds == pytest.approx(2.0, rel=0.2, abs=0.02)
    assert values["throttled"] == 0.5
    assert values["oom-kills"] == 3


def test_a_group_of_version_1(tmp_path: Path) -> None:
    """Its controllers are folders of their own; without a limit nothing is throttled."""
    cpu = group(tmp_path / "cpu", cpu__cfs_quota_us="-1\n", cpuacct__usage="1000000000\n", cpu__stat="nr_periods 0\n")
    memory = group(
        tmp_path / "memory", memory__stat="pgmajfault 1\ntotal_pgmajfault 5\n", memory__oom_control="oom_kill 0\n"
    )
    used = ProcessUsage([memory, cpu], since=clock.monotonic() - 4)
    group(tmp_path / "cpu", cpuacct__usage="3000000000\n")
    values = used.measure([])
    assert values["cpu"] == pytest.approx(0.5, rel=0.05)
    assert values["major-faults"] == 0
    assert "throttled" not in values


def test_throttling_of_version_1_is_read(tmp_path: Path) -> None:
    folder = group(tmp_path / "cpu", cpu__stat="nr_periods 10\nnr_throttled 5\nthrottled_time 2000000\n")
    assert process_usage._read_throttling(folder) == (10, 5, 0.002)


def test_our_own_groups_are_found() -> None:
    assert all(os.path.isdir(folder) for folder in container_cgroup.list_own_folders())


def test_the_network_is_that_of_the_namespace() -> None:
    """Whole numbers that never run backwards; none where the kernel does not tell."""
    before, after = process_usage._network(os.getpid()), process_usage._network(os.getpid())
    if before is not None:
        assert after is not None
        assert all(now >= then >= 0 for then, now in zip(before, after, strict=True))
    assert process_usage._network((1 << 22) + 1) is None
