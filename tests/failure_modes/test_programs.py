"""Programs that cannot start, and programs that behave as no program should."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.lab import CEILING, TONY, Lab, until
from tests.failure_modes.refusals import refused
from tests.support.child_modules import JobModules, module_words

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
MIB = 1024**2


def failed_to_start(lab: Lab, done: subprocess.CompletedProcess[str], message: str, tasks: int = 1) -> None:
    """The job failed because its program could not be started: told once, with the reason; nothing is left."""
    assert done.returncode == 1, done.stdout + done.stderr
    status = lab.status("last")
    assert (status["state"], status["failure"]["cause"]) == ("failed", "launch")
    assert status["failure"]["reason"] == f"{status['failure']['task']}: {message}"
    assert f"{status['failure']['reason']}\n" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(status["tasks"]) == tasks
    lab.wait_removed(status["job"], 30)


# --- that cannot start ------------------------------------------------------------------------------------------------


def test_a_command_that_is_not_found(lab: Lab) -> None:
    """As a word, as a path, as one that is only in the working directory; through a shell the shell says so."""
    lab.file("project/tool", "#!/bin/sh\n").chmod(0o700)
    project = lab.root / "project" / "project"
    nowhere = "command not found: nonesuch (not on PATH)"
    failed_to_start(lab, lab.tony("run", "--source", "", "--", "nonesuch", "--option"), nowhere)
    failed_to_start(lab, lab.tony("run", "-n", "3", "--source", "", "--", "nonesuch"), nowhere, tasks=3)
    beside = "command not found: tool (not on PATH; the one in the working directory is ./tool)"
    failed_to_start(lab, lab.tony("run", "--", "tool", cwd=project), beside)
    refused = lab.tony("run", "--", "./nonesuch", cwd=project)
    assert (refused.returncode, "nonesuch is not in source" in refused.stderr) == (2, True)
    optional = f'files=["{project}/nonesuch#optional"]'
    missing = "command not found: ./nonesuch (no such file in the working directory)"
    failed_to_start(lab, lab.tony("run", "--set", optional, "--", "./nonesuch", cwd=project), missing)
    done = lab.submit(lab.job_file('command = "nonesuch --option"\n'))
    assert done.returncode == 1
    assert "exit code 127" in done.stderr
    assert "nonesuch: command not found" in done.stderr


def test_an_interpreter_that_is_too_old_for_the_program(lab: Lab) -> None:
    """Any Python may run a program; what an old one says of a new program is shown as the cause."""
    old = lab.root / "python2.7"
    old.write_text(
        "#!/bin/sh\necho '  File \"train.py\", line 1' >&2\necho 'SyntaxError: invalid syntax' >&2\nexit 1\n"
    )
    old.chmod(0o700)
    done = lab.tony("run", "--source", "", "--python", str(old), "--", "python", "-m", "train")
    assert done.returncode == 1
    assert "SyntaxError: invalid syntax\n" in done.stderr


def test_an_interpreter_that_is_too_old_for_tony(tmp_path: Path) -> None:
    """Importing tony and making its environment both name the version that is needed and the one that is there."""
    code = "import sys; sys.version_info = (3, 10, 4); sys.version = '3.10.4 (main)'; import tony"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"ImportError: tony needs Python 3.11 or newer; {sys.executable} is 3.10.4\n" in done.stderr
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\necho 3.9\n")
    old.chmod(0o700)
    for python, told in (
        (old, f"'{old}' is Python 3.9, but the pinned packages are for"),
        ("/no/such", "does not run"),
    ):
        made = subprocess.run(
            [tmp_path / "scripts" / "env"],
            env={**os.environ, "PYTHON": str(python)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 1
        assert told in made.stderr
        assert not (tmp_path / ".venv").exists()


# --- what does not fit into the environment ---------------------------------------------------------------------------


def test_a_tf_config_too_long(lab: Lab) -> None:
    """Refused when the job is submitted, with the arithmetic and the number of tasks that would fit."""
    told = (
        "roles.worker.instances = 5000 (-n): TF_CONFIG takes 205,073 bytes for 5,000 tasks (41 each plus 73), but "
        "Linux allows 131,072 per variable: 3,195 tasks would fit. Host names are assumed to have 32 characters. "
        'Use fewer tasks, or framework = "none" if the programs do not read it.'
    )
    words = ("run", "-n", "5000", "--memory", "1m", "--framework", "tensorflow", "--source", "", "--", "true")
    refused(lab, lab.tony(*words), told)


def test_a_variable_that_turns_out_too_long(lab: Lab) -> None:
    """By its placeholders, or by a framework's adapter: the program is refused at its start, with the arithmetic."""
    lab.job_file('command = "true"\nenv = { A = "{params.p}{params.p}" }\n[params]\n' + f'p = "{70_000 * "x"}"\n')
    told = (
        "environment variable A has 140003 bytes with its name; Linux allows at most 131072 per string. Shorten "
        "it, or put its content in a file."
    )
    failed_to_start(lab, lab.submit(lab.root / "project" / "job.toml"), told)
    plug = lab.root / "plug"
    (plug / "w-1.dist-info").mkdir(parents=True)
    (plug / "w-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: w\nVersion: 1\n")
    (plug / "w-1.dist-info" / "entry_points.txt").write_text("[tony.frameworks]\nwordy = wordy:Wordy\n")
    (plug / "wordy.py").write_text(
        "from tony.frameworks.framework_interface import Framework\n"
        "class Wordy(Framework):\n"
        "    name = 'wordy'\n"
        "    def build_shared(self, spec, cluster): return None\n"
        "    def environment(self, shared, task): return [{'TF_CONFIG': 200_000 * 'x'}]\n"
    )
    job = lab.job_file('command = "true"\nframework = "wordy"\n[roles.worker]\ninstances = 2\n')
    done = lab.submit(job, env={"PYTHONPATH": str(plug)})
    failed_to_start(lab, done, told.replace("A has 140003", "TF_CONFIG has 200011"), tasks=2)


# --- output -----------------------------------------------------------------------------------------------------------


def test_50_mb_without_a_newline(lab: Lab) -> None:
    """All of it arrives, in pieces; the memory of no process grows with it. The follower's own messages may have an
    x in them."""
    assert 0 <= print_without_newline(lab, 50_000_000) - 50_000_000 < 100


@pytest.mark.long
def test_1_gb_without_a_newline(lab: Lab) -> None:
    """Far beyond what is kept of it: the newest stays, the rest is rotated away, which is told who asks."""
    print_without_newline(lab, 1_000_000_000)
    done = lab.tony("logs", "last", "--stdout", "--tail", "1")
    assert set(done.stdout) == {"x", "\n"}
    counted, told = count(lab, "logs", "last")
    assert 100 * MIB < counted <= 256 * MIB
    assert "tony: the output of main:0 exceeded log_limit = 256m; its beginning may have been removed" in told


def print_without_newline(lab: Lab, size: int) -> int:
    """Runs a program that prints so many `x` and no newline; answers how many its follower got."""
    program = f"head -c {size} /dev/zero | tr '\\0' x; grep VmHWM /proc/$PPID/status >&2"
    counted, told = count(lab, "run", "--source", "", "--memory", "64m", "--", "bash", "-c", program)
    status = lab.status("last")
    assert (status["state"], status["tasks"][0]["note"]) == ("succeeded", "exit code 0")
    logs = Path(status["folder"]) / "logs"
    kept = sum(path.stat().st_size for path in logs.glob("main-0.s1.t1.out*"))
    assert kept == size or (100 * MIB < kept <= 256 * MIB)
    executor = re.search(r"VmHWM:\s*(\d+) kB", (logs / "main-0.s1.t1.err").read_text())
    assert executor
    assert int(executor[1]) < 60 * 1024
    assert told == ""
    return counted


#: Runs a command, counts the x in its output, and writes down the most memory that it had, in KiB.
COUNT = """
import resource, subprocess, sys
with subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE) as command:
    counted = 0
    while part := command.stdout.read(1 << 20):
        counted += part.count(b"x")
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
open(sys.argv[1], "w").write(f"{counted} {peak}")
sys.exit(command.returncode)
"""


def count(lab: Lab, *words: str) -> tuple[int, str]:
    """How many `x` a command prints, and what it says beside that. It may not need much memory for it."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(lab.root / "counted"), TONY, *words],
        env=lab.env,
        cwd=lab.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CEILING,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counted, peak = map(int, (lab.root / "counted").read_text().split())
    assert peak < 100 * 1024
    return counted, done.stderr


def test_output_that_is_no_utf_8(lab: Lab) -> None:
    """Kept byte for byte, passed on byte for byte to programs, and valid JSON wherever JSON was asked for."""
    raw = rb"ok \xff\xfe \xc3( \xed\xa0\x80 \x00 \x1b[2J end"
    text = raw.decode("ascii")
    job = lab.job_file(f"command = \"printf '{text}\\\\n{text}'; exit 3\"\n".replace("\\x", "\\\\x"))
    follower = subprocess.run(
        [TONY, "submit", str(job)], env=lab.env, capture_output=True, timeout=CEILING, check=False
    )
    assert follower.returncode == 1
    line = raw.decode("unicode_escape").encode("latin-1")
    assert follower.stdout.count(b"main:0 | " + line + b"\n") == 2
    follower.stderr.decode()  # what we say ourselves is text
    assert b"\x1b[2J" not in follower.stderr
    log = lab.home / "jobs" / lab.only_job() / "logs" / "main-0.s1.t1.out"
    assert log.read_bytes() == line + b"\n" + line
    shown = line.decode("utf-8", errors="replace")
    done = lab.tony("logs", "last", "--json")
    assert [shown, shown] == [json.loads(each)["line"] for each in done.stdout.splitlines()]
    assert lab.status("last")["failure"]["tail"] == [shown, shown]
    page = lab.tony("status", "last").stdout
    assert "\x1b" not in page
    assert "\\x1b[2J" in page


def test_a_program_that_closes_its_output(lab: Lab) -> None:
    """It continues until it ends, and its code counts."""
    program = """
    import os, pathlib, sys, time
    print("before", flush=True)
    os.close(1)
    os.close(2)
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.02)
    sys.exit(5)
    """
    job = lab.detach(lab.job_file(f'command = "python x.py {lab.root}/gate"\n', {"x.py": program}))
    lab.wait_output(job, "main:0", "before")
    pid = lab.tasks(job)["main:0"]["pid"]
    closed = Path(f"/proc/{pid}/fd/1")
    until(lambda: lab.tasks(job)["main:0"]["pid"] and not os.path.lexists(closed), "it has closed its output")
    assert lab.status(job)["state"] == "running"
    (lab.root / "gate").touch()
    status = lab.wait(job)
    assert (status["exit_code"], status["tasks"][0]["exit_code"]) == (1, 5)
    lab.wait_removed(job, 30)


# --- ends -------------------------------------------------------------------------------------------------------------

#: A daemon by the book, and processes that a shell has put into the background. All are called sleep when it exits.
INTO_THE_BACKGROUND = {
    "daemon": "(setsid sh -c 'echo $$ > pid; exec sleep 3600' > /dev/null 2>&1 &); "
    "until grep -qx sleep /proc/$(cat pid)/comm; do sleep 0.05; done 2> /dev/null; exit {code}",
    "background": "sleep 3600 & a=$!; sleep 3601 & "
    "until grep -qx sleep /proc/$a/comm && grep -qx sleep /proc/$!/comm; do sleep 0.05; done; exit {code}",
}


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("way", INTO_THE_BACKGROUND)
def test_a_program_that_forks_into_the_background(lab: Lab, way: str, code: int) -> None:
    """It has ended when it exits; who meant the rest to continue is told that it was ended."""
    command = INTO_THE_BACKGROUND[way].format(code=code)
    done = lab.submit(lab.job_file(f'command = "{command}"\n'))
    assert done.returncode == bool(code)
    what = "one process running, which was" if way == "daemon" else "2 processes running, which were"
    note = f"exit code {code}; it left {what} killed (sleep): the task ends when its command exits"
    assert f"main:0 {'failed' if code else 'succeeded'}: {note}\n" in done.stdout
    assert lab.status("last")["tasks"][0]["note"] == note
    lab.wait_removed(lab.only_job(), 30)


def build_late_executor(seconds: float) -> JobModules:
    """Return modules with which worker:1 registers that much later."""
    return JobModules(executor=module_words("faulty_executor", f"delay-ready={seconds}", "only=worker:1"))


@pytest.mark.parametrize("code", [0, 7])
def test_a_program_that_exits_before_others_have_registered(lab: Lab, code: int) -> None:
    """Who starts at once (fcfs) may be over before the next one is there: a success waits, a failure ends the job."""
    text = f'command = "exit {{params.code}}"\ndistributed_mode = "fcfs"\n[params]\ncode = {code}\n[roles.worker]\n'
    done = lab.submit(lab.job_file(f"{text}instances = 2\n"), modules=build_late_executor(30 if code else 1.5))
    status = lab.status("last")
    states = {task["task"]: task["state"] for task in status["tasks"]}
    if code:
        assert (done.returncode, status["failure"]["task"], status["failure"]["exit_code"]) == (1, "worker:0", 7)
        assert states == {"worker:0": "failed", "worker:1": "stopped"}
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert states == {"worker:0": "succeeded", "worker:1": "succeeded"}
    lab.wait_removed(lab.only_job(), 30)


def test_no_program_of_a_gang_starts_before_all_have_registered(lab: Lab) -> None:
    """So none of them can be over before: the first one starts when the late one is there."""
    done = lab.submit(
        lab.job_file('command = "true"\n[roles.worker]\ninstances = 2\n'), modules=build_late_executor(1.5)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line)["event"] for line in lab.tony("events", "last", "--json").stdout.splitlines()]
    assert max(n for n, kind in enumerate(events) if kind == "registered") < events.index("started")


@pytest.mark.parametrize(
    ("command", "told", "signal"),
    [
        ('["python", "-c", "import ctypes; ctypes.string_at(0)"]', "killed by SIGSEGV", "SIGSEGV"),
        ('"kill -SEGV $$"', "killed by SIGSEGV", "SIGSEGV"),
        (
            "\"python -c 'import ctypes; ctypes.string_at(0)'; exit $?\"",
            "exit code 139 (a process of its shell was killed by SIGSEGV, or exited with this code)",
            None,
        ),
    ],
)
def test_a_program_that_dies_by_sigsegv(lab: Lab, command: str, told: str, signal: str | None) -> None:
    """The signal is named, also through a shell; the others of the gang are stopped; nothing is left."""
    text = f'stop_grace = "1s"\n[roles.worker]\ncommand = {command}\n[roles.peer]\ncommand = "sleep 3600"\n'
    done = lab.submit(lab.job_file(text))
    assert done.returncode == 1
    status = lab.status("last")
    failure = status["failure"]
    assert (failure["cause"], failure["task"], failure["signal"]) == ("program", "worker:0", signal)
    assert failure["reason"].startswith(f"worker:0: {told}")
    assert told in done.stderr
    assert lab.tasks("last")["peer:0"]["state"] == "stopped"
    lab.wait_removed(lab.only_job(), 30)
