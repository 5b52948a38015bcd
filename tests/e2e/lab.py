"""One user with an empty home on this machine, and everything a test wants to ask of their jobs."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.support.child_modules import JobModules
from tony.linux.process import is_alive, is_stopped, with_marker
from tony.model.state_directory import SEGMENT_GLOB, Home, JobFolder

#: Seconds. These machines have two noisy cores; nothing here is a measurement.
CEILING = 120.0
TONY = str(Path(sys.executable).parent / "tony")
ENDED = ("succeeded", "failed", "killed")
#: Pause between two questions about a job that does not seem to have ended: each starts a command.
_STATUS_SECONDS = 3.0
#: A program with children of every kind: in its group, in another session, and one that is never waited for.
FAMILY = """
import os, subprocess, time
subprocess.Popen(["sleep", "3600"])
subprocess.Popen(["sleep", "3601"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "3602"])
    os._exit(0)
os.wait()
open(f"{os.environ['OUT']}/{os.environ['TASK_INDEX']}", "w").write("up")
time.sleep(3600)
"""


def read_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield each file below a folder and its content, except those that are removed meanwhile."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    yield path, path.read_bytes()


def until(condition: Callable[[], Any], what: str, ceiling: float = CEILING) -> Any:
    """Waits until `condition()` is true; answers what it gave.

    Most conditions run a command, and would take a core: the longer the wait, the longer the pauses.
    """
    began = time.monotonic()
    while True:
        got = condition()
        if got:
            return got
        waited = time.monotonic() - began
        if waited > ceiling:
            raise AssertionError(f"not within {ceiling:.0f} s: {what}")
        time.sleep(min(max(0.02, waited / 10), 0.5))


class Lab:
    """One user, whose jobs run on this machine. The lab of another scheduler is a subclass.

    Attributes:
        scheduler: as `--scheduler` has it; None for the default, which is local.
        stop_grace: of the jobs that `job` and `roles` write.
        root: a folder for the test's own files.
        out: what programs write, for they know it as `$OUT`.
        home: TONY_HOME.
        env: the environment of every command.
        prefix: what stands before every command, such as `setpriv` and its options.
    """

    scheduler: str | None = None
    stop_grace = "1s"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "out"
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

    @property
    def options(self) -> tuple[str, ...]:
        """What `tony submit` needs to use the scheduler."""
        return ("--scheduler", self.scheduler) if self.scheduler else ()

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

    def job(self, text: str, programs: Mapping[str, str] | None = None, name: str = "job.toml", **env: str) -> Path:
        """Writes a job file whose programs know `$OUT`, and programs beside it.

        Args:
            env: variables of the programs.
        """
        self.out.mkdir(exist_ok=True)
        for file, program in (programs or {}).items():
            self.file(file, program)
        variables = ", ".join(f'{key} = "{value}"' for key, value in {"OUT": str(self.out), **env}.items())
        head = ['source = "."'] if programs else []
        head += [f"env = {{ {variables} }}", f'stop_grace = "{self.stop_grace}"']
        return self.file(name, "\n".join([*head, self.complete(textwrap.dedent(text))]))

    def complete(self, text: str) -> str:
        """Adds to the text of a job file what the scheduler needs."""
        return text

    def roles(self, program: str, text: str = "[roles.worker]\n", head: str = "", **env: str) -> Path:
        """Writes a job file whose roles all run one program."""
        return self.job(f'command = "python3 x.py"\n{textwrap.dedent(head)}\n{text}', {"x.py": program}, **env)

    def wrote(self, name: str) -> str:
        """What a program has written into a file of `out`; empty if it has not."""
        path = self.out / name
        return path.read_text() if path.exists() else ""

    def wait_wrote(self, name: str, text: str = "") -> str:
        """Waits until a program has written a file with `text` in it."""

        def written() -> bool:
            return (self.out / name).exists() and text in self.wrote(name)

        until(written, f"a program writes {text!r} into {name}")
        return self.wrote(name)

    def shared_folder(self, name: str) -> str:
        """The address of a folder that programs on every node can write."""
        return str(self.root / "shared" / name)

    def shared_names(self, name: str) -> set[str]:
        return {path.name for path in Path(self.shared_folder(name)).iterdir()}

    def use_packages(self) -> list[str]:
        """Give programs the packages of this interpreter; returns the arguments of `tony submit` for that."""
        return ["--set", f"python={sys.executable}"]

    # --- commands -------------------------------------------------------------------------------------------------

    def tony(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        timeout: float = CEILING,
        cwd: Path | None = None,
        modules: JobModules | None = None,
    ) -> subprocess.CompletedProcess[str]:
        tony = modules.tony_command() if modules else [TONY]
        return subprocess.run(
            [*self.prefix, *tony, *map(str, arguments)],
            env={**self.env, **(env or {})},
            cwd=cwd or self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def submit(self, job: Path, *arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        return self.tony("submit", job, *self.options, *arguments, **kwargs)

    def detach(
        self,
        job: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        modules: JobModules | None = None,
    ) -> str:
        """Submits a job without following it; answers its id."""
        done = self.tony("submit", job, "--detach", *self.options, *arguments, env=env, modules=modules)
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
        done = self.tony("status", job, "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def tasks(self, job: str) -> dict[str, dict[str, Any]]:
        """Task -> its part of the status."""
        return {task["task"]: task for task in self.status(job)["tasks"]}

    def wait(self, job: str, *states: str) -> dict[str, Any]:
        """Waits until the job is in one of these states (any end, if none is named)."""
        wanted = states or ENDED
        last: dict[str, Any] = {}
        asked_at = float("-inf")

        def there() -> bool:
            nonlocal asked_at
            is_recent = time.monotonic() - asked_at < _STATUS_SECONDS
            if is_recent and set(wanted) <= set(ENDED) and not self.seems_ended(job):
                return False
            asked_at = time.monotonic()
            last.clear()
            last.update(self.status(job))
            return last["state"] in wanted

        try:
            until(there, f"{job} is {' or '.join(wanted)}")
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {json.dumps(last)[:3000]}") from None
        return last

    def has_summary(self, job: str) -> bool:
        """True if the end of a job is recorded in its folder."""
        return Home(self.home).job(job).summary.exists()

    def seems_ended(self, job: str) -> bool:
        """True if a job has ended for the scheduler; found without a command."""
        return self.has_summary(job)

    def has_ended(self, job: str) -> bool:
        return self.has_summary(job) or self.status(job)["state"] in ENDED

    def events(self, job: str) -> list[dict[str, Any]]:
        """Every event of the log, in order."""
        return [json.loads(line) for line in self.tony("events", job, "--json").stdout.splitlines()]

    def events_of(self, job: str, kind: str) -> list[dict[str, Any]]:
        """The data of each event of a kind."""
        return [event["data"] for event in self.events(job) if event["event"] == kind]

    def list_started_programs(self, job: str) -> set[tuple[str, int, int, int]]:
        """Task, session, task attempt and pid of each program. An executor reports to the next AM what the one before
        had recorded, but not acknowledged: the event may be there twice."""
        return {(each["task"], each["session"], each["try"], each["pid"]) for each in self.events_of(job, "started")}

    def wait_event(self, job: str, kind: str) -> dict[str, Any]:
        """Waits for the only event of a kind, in the folder of a job on this machine; answers its data."""
        log = Home(self.home).job(job).path
        until(lambda: any(f'"{kind}"' in path.read_text() for path in log.glob(SEGMENT_GLOB)), f"the event {kind}")
        (event,) = self.events_of(job, kind)
        return event

    def failure(self, job: str) -> dict[str, Any]:
        failure: dict[str, Any] = self.status(job)["failure"]
        return failure

    def pid_of(self, job: str, task: str) -> int:
        """The pid of a task's program, as soon as it is known."""
        return int(until(lambda: self.tasks(job)[task]["pid"], f"{task} runs"))

    def executor_of(self, job: str, task: str) -> int:
        """The pid of a task's executor."""
        return int(until(lambda: self.tasks(job)[task]["executor_pid"], f"{task} has an executor"))

    def master_of(self, job: str) -> int:
        """The pid of the application master."""
        return self.masters(job)[0]

    def wait_ended(self, job: str) -> str:
        """Waits until the job has ended for the scheduler, too; returns its verdict, in words of `ENDED`."""
        self.wait_removed(job)
        return str(self.wait(job)["state"])

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

    def wait_submitted(self, *others: str) -> str:
        """Wait until another job is recorded, which a client does last; return its id."""
        home = Home(self.home)
        found = until(
            lambda: [job for job in self.jobs() if job not in others and home.job(job).job.exists()], "a job is there"
        )
        return str(found[0])

    def applications(self) -> set[str]:
        """The ids of all jobs that the scheduler knows."""
        return set(self.jobs())

    def only_job(self) -> str:
        """The id of the one job there is."""
        (job,) = self.jobs()
        return job

    def masters(self, job: str) -> tuple[int, int]:
        """The application master of a job on this machine, and its supervisor, as they are now or were last."""
        there = json.loads((self.home / "jobs" / job / "am.json").read_text())
        return int(there["pid"]), int(there["supervisor"])

    def am_folder(self, job: str) -> JobFolder:
        """The folder in which the application master writes the job's events."""
        return Home(self.home).job(job)

    def processes(self, job: str) -> list[int]:
        """Every process of ours and of the user's programs that a job has now."""
        found = set(with_marker(f"TONY_TASK={job}/")) | set(with_marker(f"TONY_EXECUTOR={job}/"))
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.update(self.masters(job))
        return sorted(pid for pid in found if is_alive(pid))

    def wait_removed(self, job: str, ceiling: float = CEILING) -> None:
        """Waits until nothing of a job runs any longer."""
        until(lambda: not self.processes(job), f"every process of {job} is gone", ceiling)

    def prove_clean(self) -> None:
        """Of jobs that have ended no process lives."""
        for job in self.jobs():
            if self.has_ended(job):
                self.wait_removed(job, 30)

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
                    self.wait_removed(job, 30)
            for pid in self.processes(job):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not self.has_summary(job):
                self.tony("status", job)  # closes the record of a job whose application master is gone


AnyLab = TypeVar("AnyLab", bound=Lab)


@contextmanager
def one_user(make: Callable[[Path], AnyLab]) -> Iterator[AnyLab]:
    """A user in a folder of their own; what they have done is proved to be clean, and removed."""
    folder = Path(tempfile.mkdtemp(prefix="tony-lab-"))
    lab = make(folder)
    try:
        yield lab
        lab.prove_clean()
    finally:
        lab.close()
        shutil.rmtree(folder, ignore_errors=True)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Sends a signal to one process that this test started."""
    os.kill(pid, number)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Suspend a process; it may be killed meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: is_stopped(pid) or not is_alive(pid), f"{pid} is suspended")
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def command_of(pid: int) -> bytes:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def load_script(path: Path) -> Any:
    """Import a file that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start_family(lab: Lab, head: str = "") -> str:
    """Submits two workers, each with a family; answers the job's id once all are up."""
    job: str = lab.detach(lab.roles(FAMILY, "[roles.worker]\ninstances = 2\n", head))
    lab.wait(job, "running")
    for index in (0, 1):
        lab.wait_wrote(str(index))
        lab.pid_of(job, f"worker:{index}")
    return job
