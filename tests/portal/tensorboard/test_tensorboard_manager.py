"""TensorBoards on demand: started on jobs' event files, visible to the jobs' viewers, ended when idle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.web.sample_jobs import TEST_PROXY, as_peer, keep
from tony.errors import InfraError
from tony.linux.process import is_alive
from tony.model.state_directory import Home
from tony.portal.histories.history_locations import open_location
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.tensorboard import tensorboard_manager as boards_module
from tony.portal.tensorboard.reverse_proxy import build_policy
from tony.portal.tensorboard.tensorboard_manager import TensorBoardManager
from tony.portal.tensorboard.tensorboard_routes import TensorBoardRoutes
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

#: It comes with the frameworks that tests run with, where there are such for this Python.
REAL = pytest.mark.skipif(
    not TensorBoardManager.is_installed(), reason="needs TensorBoard, which is not in this environment"
)
JOB, OTHER = "local-20260101-000000-0a1b2c", "local-20260102-000000-0a1b2c"
#: Seconds that anything may take on a busy machine.
CEILING = 120.0
_POLYNOMIAL = 0x82F63B78


def _crc(data: bytes) -> bytes:
    """Masked CRC-32C, as records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + _crc(length) + event + _crc(event)


def write_events(folder: Path, steps: int = 5, tag: bytes = b"loss") -> Path:
    """An event file with a scalar that halves."""
    folder.mkdir(parents=True, exist_ok=True)
    version = b"brain.Event:2"
    content = _record(b"\x09" + struct.pack("<d", 1.7e9) + b"\x1a" + bytes([len(version)]) + version)
    for step in range(steps):
        value = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", 0.5**step)
        summary = b"\x0a" + bytes([len(value)]) + value
        wall = b"\x09" + struct.pack("<d", 1.7e9 + step)
        content += _record(wall + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary)
    path = folder / "events.out.tfevents.1700000000.node7"
    path.write_bytes(content)
    return path


@dataclass(frozen=True, slots=True)
class Place:
    """A portal, and a browser before it."""

    boards: TensorBoardManager
    browser: httpx.AsyncClient

    async def start(self, jobs: str, user: str = "ann") -> httpx.Response:
        me = await self.browser.get("/api/v1/me", headers={"x-user": user})
        return await self.browser.put(
            f"/tensorboard/{jobs}/start",
            headers={"x-user": user},
            content=json.dumps({"token": me.json()["page_token"]}),
        )

    async def get(self, path: str, user: str = "ann") -> httpx.Response:
        return await self.browser.get(path, headers={"x-user": user})


@asynccontextmanager
async def place(home: Home, jobs: int, *, most: int = 4, idle: float = 600.0) -> AsyncIterator[Place]:
    """A portal that knows so many jobs."""
    portal = IndexedJobs(home, [open_location(str(home.path), home, os.environ)], "jobs of a test")
    context = ServerContext(
        portal, Authenticator(AuthConfig(key=b"k" * 32, owner="ann", proxies=(TEST_PROXY,))), boards=True
    )
    boarding = TensorBoardRoutes(home, portal, context, TensorBoardManager(home.portal / "boards", most, idle))
    app = create(context, boarding.build_routes())
    transport = httpx.ASGITransport(app=as_peer(app, None), client=("10.0.0.1", 50000))
    await portal.start()
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8600", timeout=CEILING) as browser:
            made = Place(boarding.boards, browser)

            async def all_there() -> bool:
                return len((await made.get("/api/v1/jobs", "ann")).json()["jobs"]) >= jobs

            await until(all_there)
            yield made
    finally:
        await boarding.close()
        await portal.close()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(CEILING):
        while not await holds():
            await asyncio.sleep(0.05)


def run(what: Awaitable[None]) -> None:
    async def main() -> None:
        await what

    asyncio.run(main())


@REAL
def test_scalars_of_jobs_that_have_ended(tmp_path: Path) -> None:
    """Of one job and of two together, through the page's button; only viewers of the jobs see them; nothing is left."""
    home = Home(tmp_path / "home")
    for job in (JOB, OTHER):
        write_events(keep(home, job, seed=3).work / "worker-0" / "logs" / "train")
    pids: list[int] = []

    async def check() -> None:
        async with place(home, 2) as portal:
            page = (await portal.get(f"/tensorboard/{JOB}")).text
            assert "1 event file" in page
            assert f'data-control="../tensorboard/{JOB}"' in page
            assert f'href="../tensorboard/{JOB}"' in (await portal.get(f"/job/{JOB}")).text
            assert 404 == (await portal.get(f"/tensorboard/{JOB}/board/")).status_code
            answer = await portal.start(JOB)
            assert (200, "board/") == (answer.status_code, answer.json().get("open")), answer.text
            assert answer.json() == (await portal.start(JOB)).json()
            assert 1 == len(portal.boards.pids)
            top = await portal.get(f"/tensorboard/{JOB}/board/")
            assert 200 == top.status_code
            assert 'name="tb-relative-root" content="./"' in top.text
            assert "frame-ancestors 'self'" in top.headers["content-security-policy"]
            data = f"/tensorboard/{JOB}/board/data/plugin/scalars"

            async def read() -> bool:
                return "worker-0/logs/train" in (await portal.get(f"{data}/tags")).json()

            await until(read)
            found = (await portal.get(f"{data}/scalars?run=worker-0/logs/train&tag=loss")).json()
            assert [[step, 0.5**step] for step in range(5)] == [point[1:] for point in found]
            for path in (f"/tensorboard/{JOB}", f"/tensorboard/{JOB}/board/", f"{data}/tags"):
                assert 404 == (await portal.get(path, "eve")).status_code
            assert 404 == (await portal.start(JOB, "eve")).status_code

            both = f"{JOB},{OTHER}"
            assert 200 == (await portal.start(both)).status_code

            async def read_both() -> bool:
                runs = (await portal.get(f"/tensorboard/{both}/board/data/runs")).json()
                return {f"{job}/worker-0/logs/train" for job in (JOB, OTHER)} <= set(runs)

            await until(read_both)
            foreign = {"x-user": "ann", "origin": "https://evil.example"}
            sent = await portal.browser.post(f"{data}/scalars_multirun", headers=foreign, content=b"x")
            assert 403 == sent.status_code
            long = await portal.browser.post(
                f"{data}/scalars_multirun", headers={"x-user": "ann"}, content=b"x" * (5 << 20)
            )
            assert 413 == long.status_code
            pids.extend(portal.boards.pids)
            assert 2 == len(pids)

    run(check())
    assert [] == [pid for pid in pids if is_alive(pid)]
    assert [] == list((home.portal / "boards").iterdir())


_FAKE = """
import os, socket, sys
os.chdir(sys.argv[-1])
served = socket.socket(socket.AF_UNIX)
served.bind("socket")
served.listen()
print("ready", flush=True)
while os.read(0, 100):
    pass
"""


_HANGING = """
import os, sys, time
folder, child = sys.argv[-1], os.fork()
if child:
    with open(f"{folder}/pids.new", "w") as file:
        file.write(f"{os.getpid()} {child}")
    os.rename(f"{folder}/pids.new", f"{folder}/pids")
while True:
    time.sleep(60)
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Something that is started sooner than a TensorBoard, and lives as it does."""
    install(monkeypatch, tmp_path, _FAKE)


def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Let a Python program be started in place of TensorBoard."""
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o700)

    class System:
        executable = str(program)

    monkeypatch.setattr(TensorBoardManager, "is_installed", staticmethod(lambda: True))
    monkeypatch.setattr(boards_module, "sys", System)


def nothing(folder: Path) -> None:
    """Brings nothing."""


@pytest.mark.usefixtures("quick")
async def test_never_more_than_a_set_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was idle for the longest time makes room; none that is being looked at does."""

    monkeypatch.setattr(boards_module, "_QUIET_SECONDS", 1e-6)
    boards = TensorBoardManager(tmp_path / "boards", most=2)
    try:
        first = await boards.open(("a",), nothing)
        second = await boards.open(("b",), nothing)
        with first.track_use():
            third = await boards.open(("c",), nothing)
            assert (True, False, True) == (first.is_running, second.is_running, third.is_running)
            with third.track_use(), pytest.raises(InfraError, match="all 2 TensorBoards"):
                await boards.open(("d",), nothing)
    finally:
        await boards.close()
    assert not first.is_running


@pytest.mark.usefixtures("quick")
async def test_stopped_when_idle(tmp_path: Path) -> None:
    """After a while without a request; not while one is answered."""
    boards = TensorBoardManager(tmp_path / "boards", idle=0.2)
    try:
        looked_at = await boards.open(("a",), nothing)
        with looked_at.track_use():
            other = await boards.open(("b",), nothing)

            async def gone() -> bool:
                return boards.find(("b",)) is None and not other.is_running

            await until(gone)
            assert looked_at.is_running

        async def all_gone() -> bool:
            return boards.pids == []

        await until(all_gone)
    finally:
        await boards.close()


@pytest.mark.usefixtures("quick")
async def test_closed_while_one_is_being_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = boards_module._stop
    is_being_stopped, is_stopped = asyncio.Event(), asyncio.Event()

    async def stop_slowly(process: asyncio.subprocess.Process, timeout: float) -> None:
        is_being_stopped.set()
        await asyncio.sleep(0.1)
        await stop(process, timeout)
        is_stopped.set()

    monkeypatch.setattr(boards_module, "_stop", stop_slowly)
    boards = TensorBoardManager(tmp_path / "boards", idle=0.05)
    await boards.open(("a",), nothing)
    await is_being_stopped.wait()
    await boards.close()
    assert is_stopped.is_set()


@pytest.mark.usefixtures("quick")
async def test_closed_while_event_files_are_collected(tmp_path: Path) -> None:
    """No TensorBoard is started afterwards, and no folder is left."""
    is_collecting, may_continue = threading.Event(), threading.Event()

    def collect(folder: Path) -> None:
        is_collecting.set()
        assert may_continue.wait(CEILING)
        folder.mkdir(parents=True)

    boards = TensorBoardManager(tmp_path / "boards")
    opening = asyncio.ensure_future(boards.open(("a",), collect))
    assert await asyncio.to_thread(is_collecting.wait, CEILING)
    await boards.close()
    may_continue.set()
    for late in (opening, boards.open(("b",), nothing)):
        with pytest.raises(InfraError, match="shutting down"):
            await late
    assert boards.pids == []
    assert [] == list((tmp_path / "boards").iterdir())


async def test_closed_while_a_start_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process group is killed at once, although it ignores the end of its standard input."""
    install(monkeypatch, tmp_path, _HANGING)
    pids: list[int] = []
    boards = TensorBoardManager(tmp_path / "boards")
    opening = asyncio.ensure_future(boards.open(("a",), nothing))

    async def hangs() -> bool:
        for file in (tmp_path / "boards").glob("*/*/pids"):
            pids.extend(map(int, file.read_text().split()))
        return bool(pids)

    await until(hangs)
    began = time.monotonic()
    await boards.close()
    assert time.monotonic() - began < boards_module._STOP_TIMEOUT_SECONDS
    assert not is_alive(pids[0])
    with pytest.raises(InfraError, match="shutting down"):
        await opening

    async def all_gone() -> bool:
        return not any(map(is_alive, pids))

    await until(all_gone)
    assert [] == list((tmp_path / "boards").iterdir())


_PORTAL = """
import asyncio, sys
from pathlib import Path
from tony.portal.tensorboard.tensorboard_manager import TensorBoardManager

async def main():
    boards = TensorBoardManager(Path(sys.argv[1]))
    board = await boards.open(("a",), lambda folder: None)
    print(board.pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@REAL
def test_no_orphan_of_a_portal_that_was_killed(tmp_path: Path) -> None:
    """The child ends by itself, and takes its folder along; the next portal removes what is left."""
    top = tmp_path / "boards"
    portal = subprocess.Popen([sys.executable, "-c", _PORTAL, str(top)], stdout=subprocess.PIPE, text=True)
    try:
        assert portal.stdout is not None
        pid = int(portal.stdout.readline())
        assert is_alive(pid)
    finally:
        portal.send_signal(signal.SIGKILL)
        portal.communicate()

    async def check() -> None:
        async def gone() -> bool:
            return not is_alive(pid) and list(top.glob("*/*/")) == []

        await until(gone)
        left = list(top.iterdir())
        boards = TensorBoardManager(top)
        made = await asyncio.to_thread(boards._create_folder)
        assert [made.parent] == list(top.iterdir()) != left
        await boards.close()

    run(check())


async def test_event_files_that_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, and files of other users that a job directory only names; missing ones are reported with the places
    that were searched."""
    monkeypatch.setattr(TensorBoardManager, "is_installed", staticmethod(lambda: True))
    home = Home(tmp_path / "home")
    elsewhere = write_events(tmp_path / "elsewhere")
    folder = keep(home, JOB, env={"TB_LOG_DIR": str(tmp_path / "nothing")})
    logs = folder.work / "worker-0"
    logs.mkdir(parents=True)
    (logs / "events.out.tfevents.1.link").symlink_to(elsewhere)
    (logs / "projector_config.pbtxt").write_text("embeddings { metadata_path: '/etc/passwd' }")
    async with place(home, 1) as portal:
        page = (await portal.get(f"/tensorboard/{JOB}")).text
        assert "no event files found" in page
        assert str(tmp_path / "nothing") in page
        assert 409 == (await portal.start(JOB)).status_code
        for path in ("/tensorboard/.a", "/tensorboard/a,b,c,d,e,f,g,h,i", f"/tensorboard/{OTHER}"):
            assert 404 == (await portal.get(path)).status_code
        refused = await portal.browser.put(f"/tensorboard/{JOB}/start", headers={"x-user": "ann"}, content=b"{}")
        assert 403 == refused.status_code


async def test_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "home")
    write_events(keep(home, JOB).work / "worker-0")
    monkeypatch.setattr(TensorBoardManager, "is_installed", staticmethod(lambda: False))
    async with place(home, 1) as portal:
        assert "pip install tensorboard" in (await portal.get(f"/tensorboard/{JOB}")).text
        answer = await portal.start(JOB)
        assert 503 == answer.status_code
        assert "pip install tensorboard" in answer.json()["error"]["message"]


def test_its_policy() -> None:
    """Of what a TensorBoard says only the digests of its own scripts are taken over."""
    digest = "'sha256-" + "A" * 43 + "='"
    made = build_policy(f"default-src *; script-src 'self' {digest} https://evil.example 'unsafe-inline'")
    assert digest in made
    assert "evil" not in made
    assert "script-src 'self' 'unsafe-eval' 'sha256-" in made
