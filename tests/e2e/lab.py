"""One user with an empty home on this machine, and everything a test wants to ask of their jobs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tony.linux.process import with_marker

#: Seconds. These machines have two noisy cores; nothing here is a measurement.
CEILING = 120.0
TONY = str(Path(sys.executable).parent / "tony")


def until(condition: Callable[[], Any], what: str, ceiling: float = CEILING) -> Any:
    """Waits until `condition()` is true; answers what it gave."""
    deadline = time.monotonic() + ceiling
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {ceiling:.0f} s: {what}")
        time.sleep(0.02)


class Lab:
    """One user.

    Attributes:
        root: a folder for the test's own files.
        home: TONY_HOME.
        env: the environment of every command.
        prefix: what stands before every command, such as `setpriv` and its options.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.prefix: tuple[str, ...] = ()
        self._followers: list[subprocess.Popen[str]] = []
        (root / "user").mkdir()
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TONY_")},
            "HOME": str(root / "user"),
            "XDG_CONFIG_HOME": str(root / "user" / ".config"),
            "TONY_HOME": str(self.home),
            "TONY_SET_SCHEDULER__LOCAL__LEDGER": str(root / "ledger"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    # --- files ----------------------------------------------------------------------------------------------------

    def file(self, name: str, text: str) -> Path:
        """Writes a file of the user's project."""
        path = self.root / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def job_file(self, text: str, programs: Mapping[str, str] | None = None) -> Path:
        """Writes a job file, and programs beside it, which become the job's source."""
        for name, program in (programs or {}).items():
            self.file(name, program)
        text = textwrap.dedent(text)
        return self.file("job.toml", f'source = "."\n{text}' if programs else text)

    # --- commands -------------------------------------------------------------------------------------------------

    def tony(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        timeout: float = CEILING,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            [*self.prefix, TONY, *map(str, arguments)],
            env={**self.env, **(env or {})},
            cwd=cwd or self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def submit(self, job: Path, *arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Follows a job to its end."""
        return self.tony("submit", job, *arguments, **kwargs)

    def detach(self, job: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Submits a job without following it; answers its id."""
        done = self.tony("submit", job, "--detach", *arguments, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def follow(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts a command that runs beside the test; it is ended with the test."""
        process = subprocess.Popen(
            [*self.prefix, TONY, *map(str, arguments)],
            env={**self.env, **(env or {})},
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._followers.append(process)
        return process

    # --- questions ------------------------------------------------------------------------------------------------

    def status(self, job: str) -> dict[str, Any]:
        """What `tony status --json` says."""
        done = self.tony("status", job, "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def tasks(self, job: str) -> dict[str, dict[str, Any]]:
        """Task -> its part of the status."""
        return {task["task"]: task for task in self.status(job)["tasks"]}

    def wait(self, job: str, *states: str) -> dict[str, Any]:
        """Waits until the job is in one of these states (any end, if none is named)."""
        wanted = states or ("succeeded", "failed", "killed")
        last: dict[str, Any] = {}

        def there() -> bool:
            last.clear()
            last.update(self.status(job))
            return last["state"] in wanted

        try:
            until(there, f"{job} is {' or '.join(wanted)}")
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {json.dumps(last)[:3000]}") from None
        return last

    def wait_output(self, job: str, task: str, text: str) -> str:
        """Waits until a task has printed `text`; answers all it printed."""
        folder = Path(self.status(job)["folder"]) / "logs"
        prefix = task.replace(":", "-") + "."

        def printed() -> str:
            said = "".join(p.read_text(errors="replace") for p in sorted(folder.glob(f"{prefix}*.out")))
            return said if text in said else ""

        return str(until(printed, f"{task} of {job} prints {text!r}"))

    def jobs(self) -> list[str]:
        """Ids of all jobs, oldest first."""
        folder = self.home / "jobs"
        if not folder.is_dir():
            return []
        return sorted((p.name for p in folder.iterdir() if p.is_dir()), key=lambda n: (folder / n).stat().st_mtime)

    def only_job(self) -> str:
        """The id of the one job there is."""
        (job,) = self.jobs()
        return job

    def masters(self, job: str) -> tuple[int, int]:
        """The application master of a job on this machine, and its supervisor, as they are now or were last."""
        there = json.loads((self.home / "jobs" / job / "am.json").read_text())
        return int(there["pid"]), int(there["supervisor"])

    def end_for_good(self, job: str) -> None:
        """Kills a job's supervisor and its application master: nobody goes on."""
        for pid in reversed(self.masters(job)):
            kill(pid)

    def processes(self, job: str) -> list[int]:
        """Every process of ours and of the user's programs that a job has now."""
        found = set(with_marker(f"TONY_TASK={job}/")) | set(with_marker(f"TONY_EXECUTOR={job}/"))
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.update(self.masters(job))
        return sorted(pid for pid in found if _lives(pid))

    def wait_gone(self, job: str, ceiling: float = CEILING) -> None:
        """Waits until nothing of a job runs any more."""
        until(lambda: not self.processes(job), f"every process of {job} is gone", ceiling)

    def close(self) -> None:
        """Ends whatever a failed test has left."""
        for process in self._followers:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for job in self.jobs():
            if self.processes(job):
                self.tony("kill", job, "--now")
                with contextlib.suppress(AssertionError):
                    self.wait_gone(job, 30)
            for pid in self.processes(job):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.tony("status", job)  # closes the record of a job whose application master is gone


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Sends a signal to one process that this test started."""
    os.kill(pid, number)
