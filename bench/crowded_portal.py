"""A portal of which one user has eight requests that hang, and which shows records that cost as much as they can.

Each portal is a process of its own, which listens on 127.0.0.1. Its owner asks for the list of jobs, as the process of
the same user; another user has a token, and jobs in a file system that never answers (`HangingStore`). Two portals are
asked in turn, one of them without such requests. For memory a third one shows records of that user: reports as long as
they may be and longer, event logs, gangs of as many tasks as are read, tables with computed columns, lists of lists.
Each is requested in several ways, by two requests at a time; then the process says what it had in memory at most.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.harness import CannotRunError, Figures, Line, Result, Unit, at_most, interleaved
from tests.support.hanging_store import HangingStore
from tony.history import metrics_schema
from tony.history.event_log import MAX_FOREIGN_LOG_BYTES, VERSION
from tony.history.job_record import MAX_FOREIGN_TASKS
from tony.history.json_files import MAX_FOREIGN_JSON_BYTES, write_json
from tony.linux.socket_owners import peer_uid
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.job_summary import JobHead
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState
from tony.portal.access.listen_options import ListenOptions
from tony.portal.access.login_credentials import TokenFile
from tony.portal.access.login_routes import LoginRoutes
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.job_index.index_schema import IndexEntry
from tony.portal.tensorboard.tensorboard_routes import TensorBoardRoutes
from tony.storage.stores.local_store import LocalStore
from tony.testing.sample_jobs import build_prepared_job
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import Authenticator
from tony.web.uvicorn_server import listen, serve

TITLE = "A portal that one user crowds"

#: Requests of one user that hang.
HANGING = 8
_JOBS = [f"local-20260101-000000-0000{number:02x}" for number in range(HANGING)]
#: Seconds after which something that must happen has not.
_CEILING_SECONDS = 300.0
_PARTS = ("", "/tasks", "/timeline", "/goodput", "/metrics", "/events?after=-20", "/advice", "/configuration")


# --- the portal's process ---------------------------------------------------------------------------------------------


def serve_portal(home_path: str, others_path: str) -> None:
    """Serve until standard input ends; print a line of JSON with port and token first."""
    asyncio.run(_serve(Home(Path(home_path)), Path(others_path)))


async def _serve(home: Home, others: Path) -> None:
    tokens = TokenFile(home.portal)
    terms = ListenOptions().build_auth_config(tokens)
    hanging = HangingStore()
    portal = IndexedJobs(home, [LocalStore(home.path), LocalStore(others), hanging], "jobs of a bench")
    context = ServerContext(portal, Authenticator(terms), login=True)
    boarding = TensorBoardRoutes(home, portal, context)
    login = LoginRoutes(context, tokens, terms.cookie, secure=False)
    app = create(context, [*login.build_routes(), *boarding.build_routes()])
    portal.index.claim()
    portal.index.put([IndexEntry(head=_head(job), place=hanging.address, path=f"jobs/{job}") for job in _JOBS])
    listening = listen("127.0.0.1", 0)
    work = asyncio.ensure_future(serve(app, [listening], peer_uid))
    await portal.start()
    text, _ = tokens.make("ben")
    print(json.dumps([listening.getsockname()[1], text]), flush=True)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wait_for_input() -> None:
        for line in sys.stdin:
            print(hanging.callers if line.strip() == "callers" else _peak_memory(), flush=True)
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_input, daemon=True).start()
    await ended.wait()
    hanging.let_go()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await boarding.close()
    await portal.close()


def _head(job: str) -> JobHead:
    return JobHead(
        job=job,
        name="hangs",
        state=JobState.SUCCEEDED,
        user="ben",
        scheduler="local",
        framework="none",
        tasks=1,
        submitted=1_760_000_000.0,
        ended=1_760_000_001.0,
    )


def _peak_memory() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


class CrowdedPortal:
    """A portal in a process of its own.

    Attributes:
        port: of 127.0.0.1.
        token: of the user `ben`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self._said, self._told = process.stdout, process.stdin
        line = self._said.readline()
        if not line:
            raise CannotRunError("the portal did not start")
        self.port, self.token = json.loads(line)

    def ask(self, path: str, *, as_ben: bool = False) -> tuple[int, bytes]:
        """Return status and body of an answer, for its owner or for ben."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_CEILING_SECONDS)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"} if as_ben else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def callers(self) -> int:
        """Return how many calls wait in the file system that hangs."""
        return self._number("callers")

    def memory(self) -> int:
        """Return how many bytes the process has had in memory at most."""
        return self._number("memory")

    def _number(self, what: str) -> int:
        self._told.write(f"{what}\n")
        self._told.flush()
        return int(self._said.readline())

    @contextmanager
    def hanging(self) -> Iterator[list[http.client.HTTPConnection]]:
        """Have ben send requests that hang; begin when as many of them wait as may."""
        before = self.callers()
        connections = [http.client.HTTPConnection("127.0.0.1", self.port) for _ in _JOBS]
        try:
            for connection, job in zip(connections, _JOBS, strict=True):
                headers = {"Authorization": f"Bearer {self.token}"}
                connection.request("GET", f"/api/v1/jobs/{job}", headers=headers)
            deadline = time.monotonic() + _CEILING_SECONDS
            while self.callers() < before + 2:
                if time.monotonic() > deadline:
                    raise CannotRunError("the requests do not hang")
            yield connections
        finally:
            for connection in connections:
                connection.close()


@contextmanager
def crowded_portal(folder: Path) -> Iterator[CrowdedPortal]:
    """Start a portal whose state directory and whose history of other users are in a folder."""
    home, others = folder / "home", folder / "others"
    for each in (home, others / "jobs"):
        each.mkdir(parents=True, exist_ok=True)
    code = "import sys; from bench.crowded_portal import serve_portal; serve_portal(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(home), str(others)]
    root = str(Path(__file__).parents[1])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
    try:
        yield CrowdedPortal(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


# --- records that cost much -------------------------------------------------------------------------------------------


def write_hostile_records(others: Path, count: int, *, quick: bool) -> list[str]:
    """Write records of `ben` below a history; answer their ids."""
    made = []
    kinds = (_long_summary, _too_long_summary, _long_log, _large_gang, _computed_columns, _lists_of_lists)
    for number in range(count):
        job = f"local-20260202-000000-{number:06x}"
        kind = kinds[number % len(kinds)]
        tasks = MAX_FOREIGN_TASKS if kind is _large_gang else 2
        spec = JobSpec(name=kind.__name__, roles={"worker": Role(command=("true",), instances=tasks)})
        prepared = build_prepared_job(others, spec, job)
        write_json(prepared.folder.job, {**_plain(to_plain(prepared.record)), "user": "ben"})
        kind(prepared.folder, 20 if quick else 1)
        made.append(job)
    return made


def _plain(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _summary(folder: JobFolder, tasks: int, note: str) -> None:
    rows = [
        {"task": f"worker:{n}", "role": "worker", "index": n, "state": "failed", "since": 1, "note": f"{n}{note}"}
        for n in range(tasks)
    ]
    report = {"job": folder.job_id, "name": "x", "state": "failed", "session": 1, "attempt": 1, "exit_code": 1}
    told = {**report, "folder": "/x", "am": None, "failure": None, "user": "ben", "ended": 9.0, "tasks": rows}
    folder.summary.write_text(json.dumps(told, separators=(",", ":")))


def _long_summary(folder: JobFolder, part: int) -> None:
    _summary(folder, MAX_FOREIGN_TASKS // part, "x" * (MAX_FOREIGN_JSON_BYTES // MAX_FOREIGN_TASKS - 110))
    assert folder.summary.stat().st_size <= MAX_FOREIGN_JSON_BYTES


def _too_long_summary(folder: JobFolder, part: int) -> None:
    with folder.summary.open("wb") as file:
        file.write(b'{"job":"')
        file.seek((61 << 20) // part)
        file.write(b'"}')


def _long_log(folder: JobFolder, part: int) -> None:
    header = {"format": "tony-events", "version": VERSION, "job": folder.job_id, "attempt": 1, "settings": ""}
    begin = {"seq": 1, "at": 0.0, "wall": 1, "event": "attempt-started"}
    line = {"seq": 2, "at": 0.1, "wall": 1, "event": "log-level-requested"}
    line["data"] = {"actor": {"name": "a"}, "level": "x"}
    with folder.events(1).open("w") as file:
        file.write(json.dumps(header))
        file.write("\n" + json.dumps({**begin, "data": {"attempt": 1, "wall": 1.0, "settings": ""}}) + "\n")
        text = json.dumps(line, separators=(",", ":")) + "\n"
        file.write(text * ((MAX_FOREIGN_LOG_BYTES - 1000) // len(text) // part))


def _large_gang(folder: JobFolder, part: int) -> None:
    """All that there is of it is its record."""


def _computed_columns(folder: JobFolder, part: int) -> None:
    made = "name TEXT GENERATED ALWAYS AS (printf('%.16000c', 'x') || id) VIRTUAL"
    rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 15000) SELECT x FROM c"
    with sqlite3.connect(folder.metrics) as database:
        database.executescript(
            f"PRAGMA application_id = {metrics_schema.APPLICATION}; PRAGMA user_version = {metrics_schema.VERSION}; "
            f"CREATE TABLE series (id INTEGER PRIMARY KEY, {made}, unit TEXT); INSERT INTO series (id) {rows}; "
            "CREATE TABLE task (id INTEGER PRIMARY KEY, task TEXT, role TEXT, width REAL)"
        )
    database.close()


def _lists_of_lists(folder: JobFolder, part: int) -> None:
    folder.summary.write_text("[" + "[]," * (MAX_FOREIGN_JSON_BYTES // 3 - 10) + "[]]")


# --- rows -------------------------------------------------------------------------------------------------------------


def measure(quick: bool) -> Result:
    """Ask two portals in turn, then have a third one show hostile records."""
    with tempfile.TemporaryDirectory(prefix="tony-bench-") as folder, ExitStack() as stack:
        quiet = stack.enter_context(crowded_portal(Path(folder) / "quiet"))
        crowded = stack.enter_context(crowded_portal(Path(folder) / "crowded"))
        with crowded.hanging():
            ways = {"alone": lambda: _list(quiet), "crowded": lambda: _list(crowded)}
            seen = interleaved(ways, 5 if quick else 200)
        count = 6 if quick else 64
        memory = memory_with_hostile_records(Path(folder) / "hostile", count, quick=quick)
    return Result(
        lines=(
            seen.line("the list of jobs", "alone", "wall"),
            seen.line(f"with {HANGING} hanging requests of another user", "crowded", "wall", target=at_most(0.1)),
            Line(
                what=f"most memory of the portal, {count} hostile records",
                unit=Unit.BYTES,
                value=memory,
                target=at_most(300 << 20),
            ),
        )
    )


def _list(portal: CrowdedPortal) -> Figures:
    began = time.perf_counter()
    status, _ = portal.ask("/api/v1/jobs")
    if status != 200:
        raise CannotRunError(f"the list of jobs was answered {status}")
    return {"wall": time.perf_counter() - began}


def memory_with_hostile_records(folder: Path, count: int, *, quick: bool) -> int:
    """Return the most memory of a portal from which such records are requested in every way."""
    with crowded_portal(folder) as portal:
        jobs = write_hostile_records(folder / "others", count, quick=quick)
        deadline = time.monotonic() + _CEILING_SECONDS
        while portal.ask(f"/api/v1/jobs/{jobs[-1]}/files")[0] == 404:
            if time.monotonic() > deadline:
                raise CannotRunError("the records are not found")
            time.sleep(0.1)
        with ThreadPoolExecutor(2) as pool:
            paths = [f"/api/v1/jobs/{job}{part}" for job in jobs for part in _PARTS]
            paths += [f"/job/{job}{part}" for job in jobs for part in ("", "/timeline", "/metrics")]
            for status, _ in pool.map(portal.ask, paths):  # the owner may see damaged records, too
                if status == 500:
                    raise CannotRunError("a hostile record is a bug of the portal's")
        return portal.memory()
