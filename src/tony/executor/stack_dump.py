"""Where a program stands, when somebody asks: the stacks of every thread of every Python process of it.

`py-spy` looks from outside, if it is there and may; else `faulthandler` does inside, where our hook is
(`faulthandler_stacks`). Of what is no Python there is only what the kernel says. All of it is bounded, in time and
size, and kept among the logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tony import clock
from tony.dataclass import dataclass
from tony.executor import faulthandler_stacks
from tony.executor.program_environment import MARKER, LaunchFailed
from tony.executor.reaper import Reaper
from tony.executor.run_command import run_captured
from tony.linux.ownership import only_root_can_change
from tony.linux.threads import to_thread
from tony.linux.wait_channel import command_of, wait_channel
from tony.model.masking import SecretMask
from tony.protocol.launch import ContainerPart
from tony.protocol.messages import LONGEST_STACKS

log = logging.getLogger(__name__)

_SPY = "py-spy"
#: Seconds that it may take for one process, and all may for all.
_SPY_PATIENCE, _PATIENCE = 5.0, 15.0
#: Seconds that a disk has to take it before it is told.
_DISK = 2.0
#: Processes that are looked at.
_MOST = 32
#: Bytes that the file of one try may grow to.
_MOST_KEPT = 16 << 20


@dataclass(frozen=True, slots=True)
class StacksResult:
    """What was found: as `protocol.messages.Stacks` has it."""

    text: str
    how: str
    problem: str


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of one process: by whom, and why not better."""

    text: str
    how: str = ""
    why: str = ""


class StackDumper:
    """Asks the processes of one executor's programs, one request after the other.

    Args:
        own: the executor's environment.

    Attributes:
        helpers: pids of our own children that look.
    """

    def __init__(self, container: ContainerPart, own: Mapping[str, str], reaper: Reaper) -> None:
        self._container = container
        self._own = own
        self._reaper = reaper
        self._turn = asyncio.Lock()
        self.helpers: set[int] = set()

    async def dump(self, pids: Sequence[int], mask: SecretMask) -> StacksResult:
        """Where these processes stand, without the secrets of their command lines."""
        async with self._turn:
            deadline = clock.monotonic() + _PATIENCE
            parts: list[str] = []
            found: list[_Found] = []
            for pid in pids[:_MOST]:
                each = await self._one(pid, deadline)
                if each.text:
                    found.append(each)
                    command, text = mask.hide_text(command_of(pid)), mask.hide_text(each.text)
                    parts.append(f"=== process {pid}: {_plain(command)[:300]}\n{_plain(text).rstrip()}\n")
        if len(pids) > _MOST:
            parts.append(f"=== and {len(pids) - _MOST} more processes\n")
        return _standing(_cut("\n".join(parts)), found)

    async def keep(self, folder: Path, name: str, standing: StacksResult) -> None:
        """Writes it to the end of a file among the logs; a disk that stands still is not waited for."""
        head = f"##### {clock.stamp(clock.wall())} {standing.how or 'nothing'}\n"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISK):
                await to_thread(_append, folder / name, f"{head}{standing.text or standing.problem}\n")

    async def _one(self, pid: int, deadline: float) -> _Found:
        why = "not enough time"
        if clock.monotonic() < deadline:
            seen, why = await self._spied(pid) if is_python(pid) else ("", "it is no Python")
            if seen:
                return _Found(seen, _SPY)
            told = await to_thread(faulthandler_stacks.stacks_of, pid)
            if told:
                return _Found(told, "faulthandler")
        return _Found(await to_thread(wait_channel, pid), "", why)

    async def _spied(self, pid: int) -> tuple[str, str]:
        """What py-spy sees in a process, or why it does not."""
        program = self._spy(pid)
        if program is None:
            return "", f"there is no {_SPY} that may be used, neither on PATH nor beside its Python"
        environment = {**self._own, MARKER: self._container.marker}
        pids: list[int] = []

        def began(helper: int) -> None:
            pids.append(helper)
            self.helpers.add(helper)

        why = ""
        try:
            # Without pausing it, if that will do: one that moves too fast has to be stopped for a moment.
            for how in (["--nonblocking"], []):
                argv = [program, "dump", "--full-filenames", *how, "--pid", str(pid)]
                answer = await run_captured(argv, environment, "/", self._reaper, _SPY_PATIENCE, began)
                if answer.status == 0 and answer.out.strip():
                    return answer.out, ""
                why = f"{_SPY}: {answer.err or f'exit code {answer.status}'}"
        except (LaunchFailed, TimeoutError) as error:
            why = str(error) or f"{_SPY} took more than {_SPY_PATIENCE:g} s"
        finally:
            self.helpers.difference_update(pids)
        log.info("process %d: %s", pid, why)
        return "", why

    def _spy(self, pid: int) -> str | None:
        folders = [
            *_folders_of_interpreter(pid),
            *self._container.python_path,
            *self._own.get("PATH", os.defpath).split(os.pathsep),
        ]
        found = (os.path.realpath(f"{folder}/{_SPY}") for folder in folders if folder.startswith("/"))
        return next((path for path in found if _is_safe_program(path)), None)


def _folders_of_interpreter(pid: int) -> list[str]:
    """Return the folders in which a process says that its Python is; none for a process of another user.

    Another user's process may say what it likes, and would have us run a program of its choice.
    """
    folders = []
    with contextlib.suppress(OSError, IndexError):  # a virtual environment's is a link to another one
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            word = os.fsdecode(file.read(4096).split(b"\0")[0])
        folders.append(os.path.dirname(word))
    with contextlib.suppress(OSError):
        folders.append(os.path.dirname(os.readlink(f"/proc/{pid}/exe")))
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{pid}").st_uid == os.geteuid():  # last: a process can leave a user, not become one
            return folders
    return []


def _is_safe_program(path: str) -> bool:
    """Return True for an executable file; for root only if no other user can replace or change it."""
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    return os.geteuid() != 0 or only_root_can_change(path)


def is_python(pid: int) -> bool:
    """Whether a process is an interpreter, or has one in it."""
    with contextlib.suppress(OSError):
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy")):
            return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        return b"/libpython" in maps.read(1 << 20)
    return False


def _standing(text: str, found: Sequence[_Found]) -> StacksResult:
    ways = list(dict.fromkeys(each.how for each in found if each.how))
    if ways:
        return StacksResult(text, ", ".join(ways), "")
    whys = list(dict.fromkeys(each.why for each in found if each.why))
    if not found:
        return StacksResult("", "", "the program has just ended")
    if whys == ["it is no Python"]:
        return StacksResult(text, "kernel", "no process of the program is Python: only what the kernel knows of them")
    why = "; ".join(why for why in whys if why != "it is no Python")
    problem = f"Python does not show where it stands: {why[:500]}; and our hook is not in it (see python_stacks)"
    return StacksResult(text, "kernel", problem)


def _plain(text: str) -> str:
    """Without what a terminal would obey, and what would take more room on the wire."""
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= LONGEST_STACKS:
        return text
    return f"{data[: LONGEST_STACKS - 100].decode(errors='ignore')}\n(the rest is left out)\n"


def _append(path: Path, text: str) -> None:
    try:
        with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            if file.tell() < _MOST_KEPT:
                file.write(text.encode())
    except OSError as error:
        log.warning("stacks are not kept: %s", error)
