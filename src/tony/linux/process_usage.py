"""Resource usage of a program's processes, sample by sample; names and units: `model/metric_definitions.py`.

Rates are differences of counters between two samples. A process that exits takes its counters along, and the process
that waits for it inherits them (`proc_pid_stat(5)`: cutime, cmajflt; `/proc/<pid>/io` holds both together). So what a
process had when it was last seen is recorded as a debt of its parent: that much of the inherited counters was counted
before. A process inherited outside the program, or that exited unseen, loses at most its usage since the last sample.

A control group counts everything itself; what it counts is read there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tony import clock
from tony.linux import container_cgroup, process
from tony.linux.kernel_files import parse_number, read_number, read_text, read_words

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = 1 / os.sysconf("SC_CLK_TCK")
#: Seconds after which a debt expires: no process of the program has waited for it.
_DEBT_SECONDS = 60.0
#: PSS makes the kernel walk all pages: it may cost a 1000th of a core.
_LEISURE = 1000
#: Numbers of the four counters of `_Process`.
_CPU, _FAULTS, _READ, _WRITE = range(4)
#: Places of two kinds of CPU time in the first line of /proc/stat: waiting for disks, and taken by the hypervisor.
_IOWAIT, _STEAL = 4, 7


@dataclass(frozen=True, slots=True)
class _Process:
    """One process as it was seen.

    Attributes:
        start: seconds since boot; unique together with the pid.
        waited: seconds for which its main thread was ready to run but waited for a processor.
        own: CPU seconds and major faults of its own, 0 for what the kernel does not separate.
        whole: CPU seconds, major faults, bytes read and written, including children it waited for.
    """

    parent: int
    start: float
    threads: int
    rss: int
    waited: float
    own: tuple[float, float, float, float]
    whole: tuple[float, float, float, float]


class ProcessUsage:
    """One program's resource usage.

    Args:
        folders: of its control group; none if it has none.
        since: when it was started (`tony.clock.monotonic`): the first sample has rates from then on. None: it has none.
        leisure: minimum ratio of the time between two PSS measurements to the duration of one.
    """

    def __init__(self, folders: Sequence[str] = (), since: float | None = None, leisure: float = _LEISURE) -> None:
        self._folders = tuple(folders)
        self._all_folders = (*folders, *container_cgroup.list_own_folders())
        self._kills_before = container_cgroup.oom_kills(self._folders)
        self._known: dict[int, _Process] = {}
        self._debts: dict[int, list[tuple[float, tuple[float, ...]]]] = {}
        self._before: dict[str, float] = _read_group_counters(self._folders)
        self._at = since
        self._leisure = leisure
        self._pss_from = 0.0
        self._host = _read_host_ticks()

    def measure(self, pids: Sequence[int]) -> dict[str, float]:
        """Measure current values, and rates since the last call.

        Args:
            pids: all running processes of the program.
        """
        now = clock.monotonic()
        elapsed = None if self._at is None else now - self._at
        seen = {pid: found for pid in pids if (found := _process(pid)) is not None}
        gains = self._gains(seen, now)
        values = {
            "rss": float(sum(each.rss for each in seen.values())),
            "threads": float(sum(each.threads for each in seen.values())),
            "files": float(sum(map(_files, seen))),
        }
        values.update(self._measure_shared(list(seen), now))
        if self._folders:
            values["oom-kills"] = float(container_cgroup.oom_kills(self._folders) - self._kills_before)
        if seen and (network := _network(next(iter(seen)))):
            values.update(self._rates(dict(zip(("net-in", "net-out"), network, strict=True)), elapsed))
        if elapsed:
            values.update(
                {
                    "cpu": gains[_CPU] / elapsed,
                    "major-faults": gains[_FAULTS] / elapsed,
                    "disk-read": gains[_READ] / elapsed,
                    "disk-write": gains[_WRITE] / elapsed,
                }
            )
            waits = [found.waited - self._known[pid].waited for pid, found in seen.items() if self._is_same(pid, found)]
            values["cpu-wait"] = min(1.0, max(waits, default=0.0) / elapsed)
        values.update(self._rates(_read_group_counters(self._folders), elapsed))
        values.update(self._measure_host())
        values.update(self._measure_throttling(elapsed))
        self._known, self._at = seen, now
        return {name: round(value, 4) for name, value in values.items()}

    def _is_same(self, pid: int, found: _Process) -> bool:
        """Return True if a process was seen by the last measurement."""
        before = self._known.get(pid)
        return before is not None and before.start == found.start

    def _measure_host(self) -> dict[str, float]:
        """Return shares of the CPU time of the host since the last measurement."""
        before, self._host = self._host, _read_host_ticks()
        gains = [now - then for now, then in zip(self._host, before, strict=False)]
        total = sum(gains[: _STEAL + 1])  # those of guests are contained in the others
        if len(gains) <= _STEAL or total <= 0 or min(gains) < 0:
            return {}
        return {"iowait": gains[_IOWAIT] / total, "steal": gains[_STEAL] / total}

    def _rates(self, counters: Mapping[str, float], elapsed: float | None) -> dict[str, float]:
        """Return the gains of kernel counters per second, except those that ran backwards."""
        before, found = self._before, {}
        for name, value in counters.items():
            if elapsed and value >= before.get(name, value + 1):
                found[name] = (value - before[name]) / elapsed
        self._before = {**before, **counters}
        return found

    def _measure_shared(self, pids: Sequence[int], now: float) -> dict[str, float]:
        if now < self._pss_from:
            return {}
        started_at = clock.monotonic()
        shared = process.measure_shared_memory(pids)
        self._pss_from = now + self._leisure * (clock.monotonic() - started_at)
        return {"pss": float(shared)}

    def _measure_throttling(self, elapsed: float | None) -> dict[str, float]:
        """Return the share of time in which a CPU limit was effective; of several limits the highest."""
        worst = None
        for folder in self._all_folders:
            periods, throttled, seconds = _read_throttling(folder)
            if not periods:  # no limit, so far
                continue
            names = (f"{folder} periods", f"{folder} throttled", f"{folder} seconds")
            gained = self._rates(dict(zip(names, (periods, throttled, seconds), strict=True)), elapsed)
            if len(gained) == len(names):
                # The kernel adds up the time of all processors: more than one may be throttled at a time.
                share = min(gained[names[2]], gained[names[1]] / gained[names[0]] if gained[names[0]] else 0.0, 1.0)
                worst = share if worst is None else max(worst, share)
        return {} if worst is None else {"throttled": worst}

    # --- processes that start and exit ----------------------------------------------------------------------------

    def _gains(self, seen: Mapping[int, _Process], now: float) -> tuple[float, ...]:
        """Return the gains of all counters since the last sample."""
        self._record_debts(seen, now)
        gains = [0.0, 0.0, 0.0, 0.0]
        for pid, found in seen.items():
            before = self._known.get(pid)
            if before is not None and before.start != found.start:
                before = None  # another process with its pid
            if before is None and (self._at is None or found.start < self._at - 2 * _TICK):
                continue  # not new, only seen for the first time
            owed = self._sum_debts(pid, now)
            for kind in range(len(gains)):
                own = found.own[kind] - (before.own[kind] if before else 0.0)
                inherited = found.whole[kind] - (before.whole[kind] if before else 0.0)
                gains[kind] += max(own, inherited - owed[kind], 0.0)
                self._reduce_debt(pid, kind, min(max(inherited - own, 0.0), owed[kind]))
        return tuple(gains)

    def _record_debts(self, seen: Mapping[int, _Process], now: float) -> None:
        """Record what will be inherited from processes that have exited, because it was counted already."""
        for pid, exited in self._known.items():
            if pid in seen and seen[pid].start == exited.start:
                continue
            heir = exited.parent
            for _ in range(len(self._known)):
                if heir in seen or heir not in self._known:
                    break
                heir = self._known[heir].parent
            debts = self._debts.pop(pid, [])
            if heir in seen:
                self._debts.setdefault(heir, []).extend([*debts, (now + _DEBT_SECONDS, exited.whole)])

    def _sum_debts(self, pid: int, now: float) -> list[float]:
        debts = [debt for debt in self._debts.get(pid, ()) if debt[0] > now]
        total = [sum(amounts[kind] for _, amounts in debts) for kind in range(4)]
        if debts:
            self._debts[pid] = [(max(until for until, _ in debts), tuple(total))]
        else:
            self._debts.pop(pid, None)
        return total

    def _reduce_debt(self, pid: int, kind: int, amount: float) -> None:
        debts = self._debts.get(pid)
        if debts and amount > 0:
            until, amounts = debts[0]
            debts[0] = (until, tuple(each - amount * (number == kind) for number, each in enumerate(amounts)))


def _process(pid: int) -> _Process | None:
    """Read one process; None if it has exited."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
        cpu, waited = (int(fields[11]) + int(fields[12])) * _TICK, (int(fields[13]) + int(fields[14])) * _TICK
        faults, inherited = int(fields[9]), int(fields[10])
        read, written = _read_transfers(pid)
        return _Process(
            parent=int(fields[1]),
            start=int(fields[19]) * _TICK,
            threads=int(fields[17]),
            rss=int(fields[21]) * _PAGE,
            waited=_read_wait_seconds(pid),
            own=(cpu, faults, 0.0, 0.0),
            whole=(cpu + waited, faults + inherited, read, written),
        )
    except (OSError, IndexError, ValueError):
        return None


def _read_wait_seconds(pid: int) -> float:
    """Return for how long the main thread of a process waited for a processor; 0 where the kernel does not count."""
    words = read_text(f"/proc/{pid}/schedstat").split()
    nanoseconds = parse_number(words[1]) if len(words) > 1 else None
    return (nanoseconds or 0) * 1e-9


def _read_transfers(pid: int) -> tuple[int, int]:
    """Return the bytes read from disks and written to them; 0 where that may not be read."""
    found = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/io", "rb") as io:
        found = dict(line.split(b": ", 1) for line in io.read().splitlines() if b": " in line)
    return int(found.get(b"read_bytes", 0)), int(found.get(b"write_bytes", 0))


def _read_host_ticks() -> list[int]:
    """Return the CPU time of the host by kind, in ticks; empty where that cannot be read."""
    with contextlib.suppress(OSError, ValueError), open("/proc/stat", encoding="ascii") as file:
        return [int(word) for word in file.readline().split()[1:]]
    return []


def _files(pid: int) -> int:
    """Return the number of its open files; 0 where that may not be read."""
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        return os.stat(folder).st_size or len(os.listdir(folder))  # the size is their number, since Linux 6.2
    return 0


def _network(pid: int) -> tuple[float, float] | None:
    """Return the bytes received and sent in a process's network namespace; None where the kernel does not report them.

    Traffic of bridges and virtual interfaces is not counted twice: where there are devices, only they count.
    """
    found = {}
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/net/dev", encoding="ascii") as file:
        for line in file.read().splitlines()[2:]:
            name, _, rest = line.partition(":")
            fields = rest.split()
            found[name.strip()] = float(int(fields[0])), float(int(fields[8]))
    found.pop("lo", None)
    devices = [name for name in found if os.path.exists(f"/sys/class/net/{name}/device")]
    counted = [found[name] for name in devices or found]
    return (sum(each[0] for each in counted), sum(each[1] for each in counted)) if counted else None


def _read_group_counters(folders: Sequence[str]) -> dict[str, float]:
    """Return counters of a control group, by the name of their rate."""
    found = {}
    for folder in folders:
        for file, word, name, scale in (
            ("cpu.stat", "usage_usec", "cpu", 1e-6),
            ("memory.stat", "total_pgmajfault", "major-faults", 1.0),
            ("memory.stat", "pgmajfault", "major-faults", 1.0),
        ):
            number = parse_number(read_words(f"{folder}/{file}").get(word, "")) if name not in found else None
            if number is not None:
                found[name] = number * scale
        nanoseconds = read_number(f"{folder}/cpuacct.usage")
        if nanoseconds is not None and "cpu" not in found:
            found["cpu"] = nanoseconds * 1e-9
    return found


def _read_throttling(folder: str) -> tuple[float, float, float]:
    """Return the periods of a group's CPU limit, in how many it was reached, and the seconds that processors waited."""
    found = read_words(f"{folder}/cpu.stat")
    seconds = float(found.get("throttled_usec", 0)) * 1e-6 or float(found.get("throttled_time", 0)) * 1e-9
    return float(found.get("nr_periods", 0)), float(found.get("nr_throttled", 0)), seconds
