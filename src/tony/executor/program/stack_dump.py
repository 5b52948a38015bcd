"""Stack traces of every thread of every Python process of a program, on request.

`py-spy` reads them from outside, if it is installed and permitted; otherwise `faulthandler` writes them from inside,
where the hook is installed. Of other processes only the kernel's wait channels are known.
Everything is bounded in time and size, and stored among the logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tony import clock
from tony.executor.program.collective_dump import query_ras, read_collectives
from tony.executor.program.program_environment import MARKER, STACKS_SIGNAL, LaunchFailedError
from tony.executor.program.spawn import Reaper, run_captured
from tony.executor.program.stack_source import add_source_lines
from tony.linux import process
from tony.linux.anonymous_files import find_open_file, request_answer
from tony.linux.files import is_changed_by_root_only
from tony.linux.process import command_of, wait_channel
from tony.linux.thread_pools import to_thread
from tony.linux.thread_waits import count_switches, describe_waits
from tony.model.masking import SecretMask
from tony.protocol.launch import ContainerPart
from tony.protocol.shared_messages import MAX_STACKS_BYTES, Stacks

log = logging.getLogger(__name__)

_SPY = "py-spy"
#: Name of the hook's file, as /proc shows it: `/memfd:tony-stacks (deleted)`, or a file that was deleted at once.
_HOOK_FILE = "tony-stacks"
#: Bytes of one process that the hook has written.
_MAX_HOOK_BYTES = 64 << 10
_NOT_PYTHON = "not a Python process"
#: Seconds that py-spy may take for one process.
_SPY_TIMEOUT_SECONDS = 5.0
#: Seconds for all processes together.
_TIMEOUT_SECONDS = 15.0
#: Seconds to wait for the disk before the answer is sent.
_DISK_TIMEOUT_SECONDS = 2.0
#: Number of processes that are dumped.
_MAX_PROCESSES = 32
#: Bytes of one task attempt's file.
_MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _ProcessStack:
    """The result for one process: the text, the method, and why no better one was possible."""

    text: str
    how: str = ""
    why: str = ""


class StackDumper:
    """Dumps stack traces of one executor's programs, one request at a time.

    Attributes:
        helpers: pids of running py-spy processes.
    """

    def __init__(self, container: ContainerPart, own: Mapping[str, str], reaper: Reaper) -> None:
        self._container = container
        self._own = own
        self._reaper = reaper
        self._lock = asyncio.Lock()
        self.helpers: set[int] = set()

    async def dump(self, answer: Stacks, pids: Sequence[int], mask: SecretMask) -> Stacks:
        """Return an answer with the stack traces of these processes, without the secrets in their command lines."""
        async with self._lock:
            deadline = clock.monotonic() + _TIMEOUT_SECONDS
            parts: list[str] = []
            found: list[_ProcessStack] = []
            for pid in pids[:_MAX_PROCESSES]:
                each = await self._dump_process(pid, deadline)
                if each.text:
                    found.append(each)
                    traces = await self._add_source_lines(each.text)
                    collectives = await to_thread(read_collectives, pid) if clock.monotonic() < deadline else ""
                    command, text = (
                        _escape_control_characters(mask.hide_text(shown))
                        for shown in (command_of(pid), f"{collectives}{traces}")
                    )
                    parts.append(f"=== process {pid}: {command[:300]}\n{text.rstrip()}\n")
            if clock.monotonic() < deadline:
                status = await to_thread(query_ras, pids[:_MAX_PROCESSES], deadline)
                parts.insert(0, _escape_control_characters(mask.hide_text(status)))  # a long dump is cut at its end
        if len(pids) > _MAX_PROCESSES:
            parts.append(f"=== and {len(pids) - _MAX_PROCESSES} more processes\n")
        text, (how, problem) = _truncate("\n".join(filter(None, parts))), _summarize(found)
        return replace(answer, text=text if found else "", how=how, problem=problem)

    async def keep(self, folder: Path, result: Stacks) -> None:
        """Append the result to a file among the logs; do not wait for a disk that hangs."""
        head = f"##### {clock.stamp(clock.wall())} {result.how or 'nothing'}\n"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISK_TIMEOUT_SECONDS):
                await to_thread(_append, folder / result.name, f"{head}{result.text or result.problem}\n")

    async def _dump_process(self, pid: int, deadline: float) -> _ProcessStack:
        why, head = "timeout", ""
        if clock.monotonic() < deadline:
            waits, before = await to_thread(describe_waits, pid), count_switches(pid)
            text, why = await self._run_spy(pid) if is_python(pid) else ("", _NOT_PYTHON)
            if text:
                return _ProcessStack(format_waits(waits, before, count_switches(pid)) + text, _SPY)
            text = await to_thread(read_stacks, pid)
            if text:
                return _ProcessStack(format_waits(waits, before, count_switches(pid)) + text, "faulthandler")
            head = format_waits(waits, before, count_switches(pid))
        channels = await to_thread(wait_channel, pid)
        return _ProcessStack(channels and head + channels, "", why)

    async def _add_source_lines(self, text: str) -> str:
        """Return stack traces with source lines; without them if the disk of the work folder hangs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISK_TIMEOUT_SECONDS):
                return await to_thread(add_source_lines, text, self._container.work_folder)
        return text

    async def _run_spy(self, pid: int) -> tuple[str, str]:
        """Return what py-spy reports, or why it cannot."""
        program = self._find_spy(pid)
        if program is None:
            return "", f"no usable {_SPY}, neither on PATH nor next to its Python"
        environment = {**self._own, MARKER: self._container.marker}
        pids: list[int] = []

        def on_start(helper: int) -> None:
            pids.append(helper)
            self.helpers.add(helper)

        why = ""
        try:
            # Without pausing the process if possible; a busy one must be paused for a moment.
            for how in (["--nonblocking"], []):
                argv = [program, "dump", "--full-filenames", *how, "--pid", str(pid)]
                answer = await run_captured(argv, environment, "/", self._reaper, _SPY_TIMEOUT_SECONDS, on_start)
                if answer.status == 0 and answer.out.strip():
                    return answer.out, ""
                why = f"{_SPY}: {answer.err or f'exit code {answer.status}'}"
        except (LaunchFailedError, TimeoutError) as error:
            why = str(error) or f"{_SPY} took more than {_SPY_TIMEOUT_SECONDS:g} s"
        finally:
            self.helpers.difference_update(pids)
        log.info("process %d: %s", pid, why)
        return "", why

    def _find_spy(self, pid: int) -> str | None:
        folders = [
            *_find_interpreter_folders(pid),
            *self._container.python_path,
            *self._own.get("PATH", os.defpath).split(os.pathsep),
        ]
        found = (os.path.realpath(f"{folder}/{_SPY}") for folder in folders if folder.startswith("/"))
        return next((path for path in found if _is_safe_program(path)), None)


def _find_interpreter_folders(pid: int) -> list[str]:
    """Return the directories of a process's Python interpreter; none for a process of another user.

    Another user's process could name any directory and have this executor run a program of its choice.
    """
    folders = []
    with contextlib.suppress(OSError, IndexError):  # in a virtual environment it is a symlink
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
    return os.geteuid() != 0 or is_changed_by_root_only(path)


def format_waits(waits: tuple[str, str], before: int, after: int) -> str:
    """Return a line about the system calls of a process, as `stack_groups` reads it; empty if they are not known.

    Args:
        before, after: how often its main thread had waited before and after its stack traces were read, which may wake
            it.
    """
    main, others = waits
    if not main:
        return ""
    rest = f"; other threads in {others}" if others else ""
    return f"main thread in {main} ({before} waits before, {after} after){rest}\n"


def is_python(pid: int) -> bool:
    """Return True if a process is a Python interpreter or embeds one."""
    with contextlib.suppress(OSError):
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy")):
            return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        return b"/libpython" in maps.read(1 << 20)
    return False


def _summarize(found: Sequence[_ProcessStack]) -> tuple[str, str]:
    """Return the tools that were used, and why there are no Python stack traces; else empty."""
    ways = list(dict.fromkeys(each.how for each in found if each.how))
    if ways:
        return ", ".join(ways), ""
    if not found:
        return "", "the program has just exited"
    whys = list(dict.fromkeys(each.why for each in found if each.why))
    if whys == [_NOT_PYTHON]:
        return "kernel", "no process of the program is Python: only the kernel's wait channels are shown"
    why = "; ".join(why for why in whys if why != _NOT_PYTHON)
    return "kernel", f"no Python stack traces: {why[:500]}; and tony's hook is not installed in it (see python_stacks)"


def _escape_control_characters(text: str) -> str:
    """Replace control characters, which a terminal would obey and which take more room on the wire."""
    return "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)


def _truncate(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_STACKS_BYTES:
        return text
    return f"{data[: MAX_STACKS_BYTES - 100].decode(errors='ignore')}\n=== and more: truncated\n"


def _append(path: Path, text: str) -> None:
    try:
        with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            if file.tell() < _MAX_FILE_BYTES:
                file.write(text.encode())
    except OSError as error:
        log.warning("cannot store stack traces: %s", error)


# --- from inside, by the hook of tony.python_hooks --------------------------------------------------------------------


def is_registered(pid: int) -> bool:
    """Return True if a process has registered the hook."""
    return find_open_file(pid, _is_hook_file) is not None and _handles_signal(pid)


def read_stacks(pid: int) -> str:
    """Return the stack traces of all threads of a process, the running one first; empty if it does not answer.

    The process must have an anonymous file with a known name open, and handle the hook's signal. No other process is
    ever sent the signal: an unhandled one would kill it. Takes some tenths of a second.
    """
    file = find_open_file(pid, _is_hook_file)
    if file is None or not _handles_signal(pid):
        return ""
    return request_answer(file[0], lambda: process.send(pid, STACKS_SIGNAL, is_registered), _MAX_HOOK_BYTES)


def _is_hook_file(name: str) -> bool:
    return os.path.basename(name).removeprefix("memfd:").startswith(_HOOK_FILE) and name.endswith("(deleted)")


def _handles_signal(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (int(STACKS_SIGNAL) - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False
    return False
