"""Files that mean no good, and their readers: `python -m tests.portal.hostile_files FOLDER` runs all of them.

The reader has little memory besides what the process has already (`RLIMIT_AS`), and little time of a processor.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from bench.crowded_portal import write_hostile_records
from tests.portal import hostile_hadoop_files
from tony.errors import TonyError
from tony.history.event_log import VERSION
from tony.history.job_record import read_job, read_summary
from tony.history.json_files import MAX_FOREIGN_JSON_BYTES
from tony.history.metrics_reader import Metrics
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.jobs.status.report_from_log import StatusFromLog
from tony.model.state_directory import Home, JobFolder
from tony.portal.histories.history_layouts import RecordLocation
from tony.portal.histories.record_reader import read
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import Item

#: Bytes that a reader may take, and seconds of a processor.
_MOST_MEMORY = 250 << 20
_MOST_SECONDS = 60
_EACH = MAX_FOREIGN_JSON_BYTES // 16
_NAME = "local-20260202-000000-000000"


def _text(content: str) -> Callable[[JobFolder], None]:
    def write(folder: JobFolder) -> None:
        head = '{"job":"x","name":"x","state":"failed","session":1,"attempt":1,"exit_code":1,"folder":"/x","am":null,'
        folder.summary.write_text(f'{head}"failure":null,"tasks":[],"x":[{content}]}}')

    return write


def _long(size: int) -> Callable[[JobFolder], None]:
    def write(folder: JobFolder) -> None:
        with folder.summary.open("wb") as file:
            file.write(b"[")
            file.truncate(size)

    return write


def _many_tasks(folder: JobFolder) -> None:
    rows = ({"task": f"worker:{n}", "role": "worker", "index": n, "state": "failed", "since": 1} for n in range(90_000))
    _text(",".join(json.dumps(row, separators=(",", ":")) for row in rows))(folder)
    folder.summary.write_text(folder.summary.read_text().replace('"tasks":[],"x"', '"tasks"'))


def _large_gang(folder: JobFolder) -> None:
    folder.job.write_text(folder.job.read_text().replace('"instances":2', '"instances":200000'))


def _log(line: str, size: int) -> Callable[[JobFolder], None]:
    def write(folder: JobFolder) -> None:
        header = {"format": "tony-events", "version": VERSION, "job": folder.job_id, "attempt": 1, "settings": ""}
        begin = {"seq": 1, "at": 0, "wall": 1, "event": "attempt-started"}
        begin["data"] = {"attempt": 1, "wall": 1.0, "settings": ""}
        with folder.events(1).open("w") as file:
            file.write(f"{json.dumps(header)}\n{json.dumps(begin)}\n")
            file.write(line * (size // len(line)))

    return write


def _event(what: str) -> str:
    data = {"actor": {"name": "a"}, "level": what}
    return json.dumps({"seq": 2, "at": 0.1, "wall": 1, "event": "log-level-requested", "data": data}) + "\n"


def _database(script: str) -> Callable[[JobFolder], None]:
    def write(folder: JobFolder) -> None:
        writer = MetricsWriter(folder.metrics, folder.job_id, 5.0)
        writer.write([TaskMetricsUpdate("worker:0", "worker", 5.0, True, 0, {"cpu": (1.0, 1.5, 2.0)})])
        writer.close()
        database = sqlite3.connect(folder.metrics)
        database.executescript(script)
        database.close()

    return write


def _flipped(folder: JobFolder) -> None:
    """Forty files with wrong bytes are read one after the other."""
    _database("")(folder)
    whole = folder.metrics.read_bytes()
    chance = Random(7)
    for number in range(40):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 8, 64))):
            data[chance.randrange(len(data) if number % 2 else 100)] = chance.randrange(256)
        data[:16] = whole[:16]
        folder.metrics.with_name(f"metrics-{number}.db").write_bytes(data)


_ROWS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 300000) SELECT x"
_COMPUTED = "id INTEGER PRIMARY KEY, name TEXT GENERATED ALWAYS AS (printf('%.16000c', 'x') || id) VIRTUAL, unit TEXT"
CASES: dict[str, Callable[[JobFolder], None]] = {
    "lists": _text("[]," * (15 * _EACH // 3) + "0"),
    "strings": _text('"ab",' * (15 * _EACH // 5) + "0"),
    "floats": _text("1e1," * (_EACH // 4) + "0"),
    "nested": _text("[" * 200_000),
    "long": _long(61 << 20),
    "tasks": _many_tasks,
    "gang": _large_gang,
    "long-log": _log(_event("x"), 54 << 20),
    "long-lines": _log(_event("x" * (3 << 20)), 31 << 20),
    "computed": _database(
        f"DROP TABLE series; CREATE TABLE series ({_COMPUTED}); INSERT INTO series (id) {_ROWS} FROM c LIMIT 20000"
    ),
    "defaults": _database(
        f"DROP TABLE series; CREATE TABLE series (id INTEGER PRIMARY KEY, unit TEXT); INSERT INTO series (id) {_ROWS} "
        f"FROM c LIMIT 20000; ALTER TABLE series ADD COLUMN name TEXT DEFAULT '{'x' * 15_000}'"
    ),
    "rows": _database(
        "DROP TABLE chunk; "
        "CREATE TABLE chunk (id INTEGER PRIMARY KEY, scale, known, low, middle, high, least, mean, most); "
        f"INSERT INTO chunk {_ROWS}, 1, 1, 1, 1, 1, x'', x'', x'' FROM c"
    ),
    "cache": _database("PRAGMA default_cache_size = 1000000"),
    "flipped": _flipped,
    **hostile_hadoop_files.CASES,
}


def _read(folder: JobFolder) -> None:
    for reader in (
        lambda: read_job(folder, own=False),
        lambda: read_summary(folder, own=False),
        lambda: StatusFromLog(folder, own=False).load_report(),
        lambda: _index(folder),
        lambda: hostile_hadoop_files.read_aggregated(folder),
    ):
        try:
            reader()
        except TonyError as error:
            print(error)
    for path in folder.path.glob("metrics*.db"):
        with Metrics(path, own=False) as metrics:
            metrics.read_newest()
            metrics.peaks()
            metrics.progress()
            metrics.checkpoints()
            for task in metrics.tasks():
                metrics.points(task, "cpu")
            print(metrics.problem)


def _index(folder: JobFolder) -> None:
    store = LocalStore(folder.path.parent.parent)
    entry = read(store, RecordLocation(path=f"jobs/{folder.job_id}", item=Item(name=folder.job_id, folder=True)))
    print(entry and entry.head.damaged)


def _run(case: str, home: Home) -> None:
    """Write the files, then read them with little memory."""
    folder = home.job(write_hostile_records(home.path, 1, quick=True)[0])
    folder.summary.unlink()
    CASES[case](folder)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = int(status["VmSize"].split()[0]) * 1024 + _MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    _read(folder)


def main(place: str) -> None:
    """Run all cases, each in a process of its own; leave in `CASE.out` what it printed, its exit code last."""
    for case in CASES:
        sys.stdout.flush()
        with (Path(place) / f"{case}.out").open("w") as out:
            pid = os.fork()
            if not pid:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
                code = 1
                try:
                    _run(case, Home(Path(place) / case))
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            _, status = os.waitpid(pid, 0)
        with (Path(place) / f"{case}.out").open("a") as out:
            out.write(f"exit {os.waitstatus_to_exitcode(status)}\n")
        shutil.rmtree(Path(place) / case)


if __name__ == "__main__":
    main(sys.argv[1])
