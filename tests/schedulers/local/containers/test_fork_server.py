"""The server that starts executors: as forks where it can, and whatever happens to itself."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tony import isolated_interpreter
from tony.errors import ExitCode
from tony.linux import process
from tony.schedulers.local.containers import fork_server
from tony.schedulers.local.containers.fork_server import ForkServer
from tony.testing.allocator_bench import TIMEOUT_SECONDS

#: Says what it is, then waits for the end of its input.
PROGRAM = """
import os, sys
print(os.getcwd(), os.environ["GIVEN"], os.getsid(0) == os.getpid(), sorted(map(int, os.listdir("/proc/self/fd"))))
sys.stdout.flush()
sys.stdin.read()
sys.exit(5)
"""


class Bench:
    """A server, and what programs of it say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = ForkServer()
        self.output = folder / "output"
        self.inputs: dict[int, int] = {}

    async def start(self, argv: list[str]) -> int:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            with self.output.open("ab") as output:
                pid = await self.server.start(
                    argv, folder=self.folder, env={"GIVEN": "yes"}, stdin=reading, output=output.fileno(), kept=[]
                )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        self.inputs[pid] = writing
        return pid

    async def ended(self, pid: int) -> int | None:
        """Lets a program end, and answers how it did."""
        os.close(self.inputs.pop(pid))
        await wait_until(lambda: not process.is_alive(pid))
        return await self.server.reap(pid)

    async def close(self) -> None:
        for writing in self.inputs.values():
            os.close(writing)
        await self.server.close()


@asynccontextmanager
async def begun(folder: Path) -> AsyncIterator[Bench]:
    bench = Bench(folder)
    try:
        yield bench
    finally:
        await bench.close()


def python(code: str = PROGRAM) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


async def test_a_program_has_its_folder_environment_session_and_nothing_of_ours(tmp_path: Path) -> None:
    async with begun(tmp_path) as bench:
        pid = await bench.start(python())
        await wait_until(lambda: bool(bench.output.read_text()))
        assert bench.output.read_text() == f"{tmp_path} yes True [0, 1, 2, 3]\n"  # 3 is the listing itself
        assert await bench.ended(pid) == 5


async def test_a_program_of_ours_is_a_fork(tmp_path: Path) -> None:
    """No interpreter starts for it: its /proc/PID/exe is the server's, and it is named for what it is."""
    async with begun(tmp_path) as bench:
        pid = await bench.start(isolated_interpreter.command("tony.executor.main"))
        title = Path(f"/proc/{pid}/cmdline")
        await wait_until(
            lambda: title.read_bytes().startswith(b"tony.executor.main in ")
        )  # its environment came before
        assert process.has_marker(pid, b"GIVEN=yes")
        assert os.getsid(pid) == pid
        code = await bench.ended(pid)
        assert "the launch context" in bench.output.read_text()
        assert code == ExitCode.BUG


async def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    """A failed start raises the system's error, and the server continues."""
    async with begun(tmp_path) as bench:
        with pytest.raises(FileNotFoundError, match="/no/such/program"):
            await bench.start(["/no/such/program"])
        assert await bench.ended(await bench.start(python())) == 5


async def test_many_at_once(tmp_path: Path) -> None:
    async with begun(tmp_path) as bench:
        codes = [f"import sys; sys.stdin.read(); sys.exit({n})" for n in range(12)]
        pids = await asyncio.gather(*(bench.start(python(code)) for code in codes))
        assert await asyncio.gather(*(bench.ended(pid) for pid in pids)) == list(range(12))


async def test_killed_by_a_signal(tmp_path: Path) -> None:
    """As `subprocess` says it: minus its number."""
    async with begun(tmp_path) as bench:
        pid = await bench.start(python())
        os.kill(pid, signal.SIGKILL)
        assert await bench.ended(pid) == -9


async def test_a_killed_server_is_replaced(tmp_path: Path) -> None:
    """The programs that it had started continue, although their exit status is lost; the next start finds another
    server."""
    async with begun(tmp_path) as bench:
        first = await bench.start(python())
        os.kill(bench.server.pid, signal.SIGKILL)
        second = await bench.start(python())
        assert process.is_alive(first)
        assert await bench.ended(second) == 5
        assert await bench.ended(first) is None


async def test_a_server_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped one is killed after a while, and the start fails with that reason; the next start is well."""
    async with begun(tmp_path) as bench:
        await bench.ended(await bench.start(python()))
        stopped = bench.server.pid
        os.kill(stopped, signal.SIGSTOP)
        monkeypatch.setattr(fork_server, "_ANSWER_SECONDS", 0.3)
        with pytest.raises(OSError, match="did not answer"):
            await bench.start(python())
        assert process.start_time(stopped) is None
        monkeypatch.setattr(fork_server, "_ANSWER_SECONDS", TIMEOUT_SECONDS)
        assert await bench.ended(await bench.start(python())) == 5


async def test_it_ends_with_its_master(tmp_path: Path) -> None:
    """A master that is killed leaves no server behind."""
    code = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {isolated_interpreter.command("x")[5]!r})
from tony.schedulers.local.containers.fork_server import ForkServer
async def main():
    server = ForkServer()
    server.open()
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    async with begun(tmp_path):
        master = await asyncio.create_subprocess_exec(*python(code), stdout=asyncio.subprocess.PIPE)
        output, _ = await master.communicate()
        server = int(output)
        await wait_until(lambda: not process.is_alive(server))
