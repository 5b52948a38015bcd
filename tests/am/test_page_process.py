"""The process that serves a job's pages beside the master: begins with the first request, comes back, and ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import h11
import pytest
from starlette import applications

import tony
from tests.am.test_fallback_page import report
from tests.facts import mentions
from tests.support.waiting import wait_until
from tests.web.sample_jobs import keep
from tony.am import web_listener
from tony.am.page_process import PageProcess
from tony.am.web_listener import WebListener
from tony.linux.process import children, environment_of, is_alive
from tony.model.state_directory import Home, JobFolder
from tony.schedulers.allocator_interface import PageProxy

HOST, PROXY = "127.0.0.1", "http://rm.example.org:8088/proxy/application_1_0001/"
#: Where the packages are that pages need.
PACKAGES = str(Path(applications.__file__).parents[1])
PAGE_PROXY = PageProxy(peers=(HOST,), proxy=PROXY, origins=("http://rm.example.org:8088",), packages=PACKAGES)
CEILING = 120.0

assert Path(h11.__file__).parents[1] == Path(PACKAGES)  # all of them are in one place


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to one request."""

    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A page that listens, and its clients."""

    port: int
    key: str

    async def get(self, path: str = "/", source: str = HOST, cookie: str = "") -> Answer:
        reader, writer = await asyncio.open_connection(HOST, self.port, local_addr=(source, 0))
        try:
            more = f"Cookie: {cookie}\r\n" if cookie else ""
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x:1\r\nConnection: close\r\n{more}\r\n".encode())
            whole = await asyncio.wait_for(reader.read(), CEILING)
        finally:
            writer.close()
        head, _, body = whole.decode().partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return Answer(status=int(first.split()[1]), headers=headers, body=body)

    async def full(self) -> Answer:
        """The job's page, with all there is; a connection may have come as the process before went."""
        async with asyncio.timeout(CEILING):
            while True:
                try:
                    answer = await self.get()
                except (ConnectionError, IndexError):
                    continue
                assert "Timeline" in answer.body, answer
                return answer


class Process(PageProcess):
    """Its page process ends soon after the last request."""

    idle = 900.0

    def _build_config(self, listening: object) -> bytes:
        return json.dumps({**json.loads(super()._build_config(listening)), "idle": self.idle}).encode() + b"\n"  # type: ignore[arg-type]


@asynccontextmanager
async def visited(folder: JobFolder, page_proxy: PageProxy, idle: float = 900.0) -> AsyncIterator[Visit]:
    """A page that listens; when it is closed no process of it is left."""
    process = Process(folder.path, "ann", page_proxy)
    process.idle = idle
    page = WebListener(report, page_proxy.peers, page_proxy.proxy, process, page_proxy.plain)
    assert ours() == []
    try:
        yield Visit(port=await page.listen(HOST), key=process._key)
    finally:
        await page.close()
    assert ours() == []


def ours() -> list[int]:
    return [pid for pid in children(os.getpid()) if b"tony.web.am_server" in command(pid)]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def kill(pid: int) -> None:
    """Ends one, as the kernel does when there is no memory."""
    os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: not is_alive(pid) and ours() == [])


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return keep(Home(tmp_path))


async def test_the_process_starts_with_the_first_request(folder: JobFolder) -> None:
    """All pages, for users that come through the proxy, with no secret that others could read."""
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    async with visited(folder, PAGE_PROXY) as visit:
        first = await visit.full()
        assert "succeeded" in first.body or "failed" in first.body
        (pid,) = ours()
        past = await visit.get(source="127.0.0.9", cookie="proxy-user=ann")
        assert (past.status, past.headers["location"], "Timeline" in past.body) == (302, PROXY, False)
        assert json.loads((await visit.get("/api/v1/me", cookie="proxy-user=b%C3%B6b")).body)["user"] == "böb"
        assert json.loads((await visit.get("/api/v1/me")).body)["user"] == ""
        assert ours() == [pid]
        # The key of pages' tokens is nowhere where the machine shows it to others.
        key = visit.key.encode()
        assert key not in command(pid) + environment_of(pid)
        assert [path for path in files if key in path.read_bytes()] == []


async def test_one_that_dies_is_followed_by_another(folder: JobFolder, caplog: pytest.LogCaptureFixture) -> None:
    """An open page continues to work; after the third death the plain page stays, and says why."""
    async with visited(folder, PAGE_PROXY) as visit:
        tokens = set()
        for _ in range(3):
            await visit.full()
            tokens.add(json.loads((await visit.get("/api/v1/me", cookie="proxy-user=ann")).body)["page_token"])
            (pid,) = ours()
            await kill(pid)
        assert len(tokens) == 1
        plain = await visit.get()
        assert mentions(plain.body, "5 m 00 s", "3 times", "SIGKILL")
        assert "<code>tony kill application_1_0001</code>" in plain.body
        assert "<td>worker:1</td>" in plain.body
        assert ours() == []
    assert [each.message for each in caplog.records if each.name == web_listener.__name__].count(
        "from now on only the plain status page is served"
    ) == 1


async def test_deaths_that_are_far_apart_do_not_count(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job runs for days: occasional deaths of its page process are no defect."""
    monkeypatch.setattr(web_listener, "_FAILURE_WINDOW_SECONDS", 0.0)
    monkeypatch.setattr(web_listener, "_MAX_FAILURES", 2)
    async with visited(folder, PAGE_PROXY) as visit:
        for _ in range(2):
            await visit.full()
            (pid,) = ours()
            await kill(pid)
        await visit.full()


async def test_without_packages_the_plain_page_stays(folder: JobFolder, capfd: pytest.CaptureFixture[str]) -> None:
    """They are damaged, or not for this Python: the plain page is served and states the reason."""
    async with visited(folder, replace(PAGE_PROXY, packages=str(folder.path / "none.zip"))) as visit:
        plain = await visit.get()
        assert plain.status == 200
        assert mentions(plain.body, "code 1")
        assert "<td>worker:0</td>" in plain.body
    assert capfd.readouterr().err.count("ModuleNotFoundError: No module named 'starlette'") == 3


async def test_nothing_that_could_be_started(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the machine has no room for another process."""
    monkeypatch.setattr(sys, "executable", str(folder.path / "python"))
    async with visited(folder, PAGE_PROXY) as visit:
        assert "python cannot be started: " in (await visit.get()).body


async def test_it_exits_when_idle(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no failure, however often; the next request starts it again."""
    monkeypatch.setattr(web_listener, "_MAX_FAILURES", 1)
    async with visited(folder, PAGE_PROXY, idle=0.2) as visit:
        for _ in range(2):
            await visit.full()
            await wait_until(lambda: ours() == [])


#: A master as far as its page goes; says the port.
MASTER = """
import asyncio, json, sys
from pathlib import Path
from tony.am.web_listener import WebListener
from tony.am.page_process import PageProcess
from tony.schedulers.allocator_interface import PageProxy
from tests.am.test_fallback_page import report

async def main():
    page_proxy = PageProxy(peers=("127.0.0.1",), proxy="", packages=sys.argv[2])
    page = WebListener(report, page_proxy.peers, page_proxy.proxy, PageProcess(Path(sys.argv[1]), "ann", page_proxy))
    print(await page.listen("127.0.0.1"), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_it_ends_with_its_master(folder: JobFolder) -> None:
    """After a kill no process is left, and nothing listens at its port any longer."""
    root = Path(tony.__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(root / "src")))}
    master = subprocess.Popen(
        [sys.executable, "-c", MASTER, str(folder.path), PACKAGES], stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        assert master.stdout is not None
        visit = Visit(port=int(master.stdout.readline()), key="")
        assert "Timeline" in asyncio.run(visit.full()).body
        (pid,) = children(master.pid)
        assert b"tony.web.am_server" in command(pid)
        master.kill()
        master.wait()
        asyncio.run(wait_until(lambda: not is_alive(pid)))
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(visit.get())
    finally:
        master.kill()
        master.communicate()


def test_a_plain_page_states_its_reason(folder: JobFolder) -> None:
    """The reason is known at once where no packages were shipped; without one the page has none."""

    async def said(why: str) -> str:
        page = WebListener(report, (), "", None, why)
        visit = Visit(port=await page.listen(HOST), key="")
        try:
            return (await visit.get()).body
        finally:
            await page.close()

    body = asyncio.run(said("<b> is missing."))
    assert re.search(r"Only this page is available\. &lt;b&gt; is missing\. In a terminal: <code>tony status app", body)
    assert "Only this page" not in asyncio.run(said(""))
