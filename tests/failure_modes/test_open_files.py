"""Few open files or no inotify: the message names limit and number, or a slower way does the same."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from contextlib import ExitStack

import pytest

from tests.e2e.lab import Lab, until
from tony.rpc.sockets import shorten_path

pytestmark = pytest.mark.e2e

TALK = 'command = "for i in 1 2 3; do echo line $i; sleep 0.2; done"\n[roles.worker]\ninstances = 2\n'
NAMED = "(RLIMIT_NOFILE, ulimit -n)"


@pytest.fixture(params=["max_inotify_instances", "max_inotify_watches"])
def deaf(lab: Lab, request: pytest.FixtureRequest) -> Lab:
    """A user who has used up what the kernel gives of inotify: in a user namespace of its own it gives nothing."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not installed")
    none = f'echo 0 > /proc/sys/user/{request.param} && exec "$@"'
    lab.prefix = ("unshare", "--user", "--map-root-user", "sh", "-c", none, "sh")
    probe = subprocess.run([*lab.prefix, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no user namespace can be made here: {probe.stderr.strip()[-200:]}")
    return lab


def with_open_files(lab: Lab, most: int, flags: str = "-n") -> Lab:
    """Every command of a lab may have so many files open."""
    lab.prefix = ("bash", "-c", f'ulimit {flags} {most} && exec "$@"', "bash")
    return lab


def only_the_end(said: str, command: tuple[str, ...]) -> bool:
    """Whether a command said nothing but how the job ended, if it followed its output."""
    return bool(re.fullmatch(r"tony: job .* succeeded after .*\n" if command[0] == "logs" else "", said))


def test_no_inotify_left(deaf: Lab) -> None:
    """Everything works by polling instead; no message mentions it."""
    done = deaf.submit(deaf.job_file(TALK))
    assert (done.returncode, done.stderr) == (0, "")
    for task in ("worker:0", "worker:1"):
        told = re.findall(rf"{task} \| (line \d)", done.stdout)
        assert told == ["line 1", "line 2", "line 3"]
    job = deaf.only_job()
    for words in (("logs", "-f", job), ("events", "-f", job), ("status", job)):
        done = deaf.tony(*words)
        assert (done.returncode, only_the_end(done.stderr, words)) == (0, True), (words, done.stderr)


def test_no_inotify_left_while_a_job_waits_for_another(deaf: Lab) -> None:
    """The second one finds out that there is room for it."""
    deaf.env["TONY_SET_SCHEDULER__LOCAL__MEMORY"] = "1g"
    gate = deaf.root / "gate"
    first = deaf.detach(deaf.job_file(f'command = "until test -e {gate}; do sleep 0.05; done"\n'))
    deaf.wait(first, "running")
    second = deaf.detach(deaf.job_file('command = "echo second"\n'))
    deaf.wait(second, "queued")
    gate.touch()
    assert deaf.wait(first)["exit_code"] == 0
    assert deaf.wait(second)["exit_code"] == 0


def test_too_few_open_files_are_refused_with_the_arithmetic(lab: Lab) -> None:
    """Nothing is started. With the number that is requested, the same job runs."""
    job = lab.job_file('command = "echo up"\n[roles.worker]\ninstances = 12\nmemory = "64m"\n')
    refused = with_open_files(lab, 20).submit(job)
    assert refused.returncode == 2
    told = re.search(r"12 tasks at one time need (\d+) open files in one process", refused.stderr)
    assert told
    assert "the hard limit is 20 (RLIMIT_NOFILE, ulimit -Hn). Raise it, or request fewer tasks." in refused.stderr
    assert lab.jobs() == []
    done = with_open_files(lab, int(told[1])).submit(job)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("| up") == 12


def test_a_low_soft_limit_is_raised(lab: Lab) -> None:
    """By the client, the application master and their executors; where the hard limit allows it, the user need not."""
    job = lab.job_file('command = "echo up"\n[roles.worker]\ninstances = 30\nmemory = "64m"\n')
    done = with_open_files(lab, 8, "-Sn").submit(job)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("| up") == 30


def test_a_usual_soft_limit_reaches_the_program(lab: Lab) -> None:
    """Programs walk over all numbers up to it, and some break beyond 1024: we raise nothing that need not be."""
    done = with_open_files(lab, 1024, "-Sn").submit(lab.job_file('command = "ulimit -Sn"\n'))
    assert (done.returncode, done.stderr) == (0, "")
    assert "| 1024\n" in done.stdout


def test_commands_with_few_open_files(lab: Lab) -> None:
    """One that cannot do with them names the limit, and what it needs; none ends in a traceback."""
    lab.submit(lab.job_file(TALK))
    job = lab.only_job()
    file = lab.job_file(TALK)
    xml = file.with_suffix(".xml")
    xml.write_text("<configuration/>", encoding="utf-8")
    words: dict[str, tuple[str, ...]] = {
        **{
            name: (name, job)
            for name in ("attach", "status", "logs", "events", "kill", "advise", "history", "pin", "replay")
        },
        **{name: (name, job) for name in ("top", "timeline", "metrics")},
        "compare": ("compare", job, job),
        **{name: (name,) for name in ("list", "waste", "settings", "version")},
        **{name: (name, str(file)) for name in ("submit", "validate")},
        "convert": ("convert", str(xml)),
        "trace": ("trace", job, "--json"),
        "purge": ("purge", "--keep", "1000"),
        "run": ("run", "--", "true"),
        "completion": ("completion", "bash"),
        "mini": ("mini", "status"),
    }
    refused = 0
    for name, line in words.items():
        for most in (6, 9):
            done = with_open_files(lab, most).tony(*line)
            what = f"{name} with {most}: {done.returncode} {done.stderr}"
            assert "Traceback" not in done.stderr, what
            assert "bug in tony" not in done.stderr, what
            if done.returncode == 3:
                refused += 1
                assert NAMED in done.stderr, what
                assert re.search(r"a command of tony needs up to \d+", done.stderr), what
            elif done.returncode == 2:
                assert "ulimit -Hn" in done.stderr, what
            else:
                assert done.returncode == 0, what
    assert refused >= 3
    assert lab.jobs() == [job]
    assert not list(lab.home.glob("crash-*"))


def test_the_number_of_files_in_the_message_is_enough(lab: Lab) -> None:
    """The number in the message is no guess."""
    from tony.cli import main

    lab.submit(lab.job_file(TALK))
    job = lab.only_job()
    with_open_files(lab, main._MAX_OPEN_FILES)
    for line in (("status", job), ("logs", "-f", job), ("events", "-f", job), ("list",), ("replay", job)):
        done = lab.tony(*line)
        assert (done.returncode, only_the_end(done.stderr, line)) == (0, True), (line, done.stderr)


def test_a_low_limit_is_enough_for_requests_to_many_tasks(lab: Lab) -> None:
    """Also for more tasks than one batch: all over one connection."""
    from tony.cli import main

    file = lab.job_file('command = "echo up; exec sleep 1000"\nstop_grace = "0s"\n[roles.worker]\ninstances = 20\n')
    job = lab.detach(file)
    for index in range(20):
        lab.wait_output(job, f"worker:{index}", "up")
    with_open_files(lab, main._MAX_OPEN_FILES)
    for line in (("stacks", job), ("log-level", job, "debug"), ("restart", job), ("kill", job)):
        done = lab.tony(*line)
        assert (done.returncode, done.stderr) == (0, ""), (line, done.stderr)
    assert lab.wait(job)["state"] == "killed"


def test_connections_beyond_the_limit_wait(lab: Lab) -> None:
    """A client takes all files that an AM may open: that is reported with the limit, and the job is unaffected."""
    gate = lab.root / "gate"
    text = f'command = "until test -e {gate}; do sleep 0.05; done"\n'
    job = with_open_files(lab, 42).detach(lab.job_file(text))
    lab.prefix = ()
    lab.wait(job, "running")
    folder = lab.home / "jobs" / job
    with ExitStack() as stack:
        for _ in range(42):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            with shorten_path(str(folder / "am.sock")) as path:
                client.connect(path)
        log = folder / "am.log"
        until(lambda: "cannot take another connection" in log.read_text(), "the master has no room for another one")
        assert "Too many open files: a process may have 42 files open (RLIMIT_NOFILE, ulimit -n)" in log.read_text()
        gate.touch()
        until((folder / "summary.json").exists, "the job ends while no client can connect")
    assert lab.wait(job)["exit_code"] == 0
