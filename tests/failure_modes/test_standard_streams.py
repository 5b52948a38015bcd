"""Standard streams that are closed, without a reader, or full: the right exit code, and no traceback."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.lab import TONY, Lab
from tony.cli.main import COMMANDS

pytestmark = [pytest.mark.e2e, pytest.mark.on_change("cli", "jobs", "client", "web", "advice", "history", "portal")]

#: Command -> its lines, each of which answers 0 and prints something; `{job}` and `{file}` stand for a job.
LINES: dict[str, tuple[str, ...]] = {
    "init": ("init --help",),
    "submit": ("submit {file}", "submit {file} --detach", "submit {file} --json", "submit {file} --dry-run"),
    "run": ("run -- echo up",),
    "rerun": ("rerun {job}", "rerun {job} --detach", "rerun {job} --json", "rerun {job} --dry-run"),
    "attach": ("attach {job}", "attach {job} --json"),
    "status": ("status {job}", "status {job} --json"),
    "logs": ("logs {job}", "logs -f {job}", "logs --json {job}"),
    "events": ("events {job}", "events -f {job}"),
    "open": ("open --help",),
    "top": ("top {job}", "top {job} --json"),
    "timeline": ("timeline {job}", "timeline {job} --json"),
    "metrics": ("metrics {job} --csv", "metrics {job} --json"),
    "compare": ("compare {job} {job}", "compare {job} {job} --json"),
    "kill": ("kill {job}",),
    **{name: (f"{name} --help",) for name in ("restart", "stacks", "log-level")},
    **{name: (f"{name} --help",) for name in ("exec", "shell", "proxy")},
    **{name: (f"{name} --help",) for name in ("cluster-submit", "local-submit", "notebook-submit")},
    "list": ("list", "list --json"),
    "portal": ("portal token", "portal token --json", "portal --help"),
    "login": ("login --help",),
    "why": ("why {job}", "why {job} --json"),
    "doctor": ("doctor", "doctor --json"),
    "advise": ("advise {job}", "advise {job} --json"),
    "waste": ("waste", "waste --json"),
    "history": ("history {job}",),
    "pin": ("pin {job}", "pin {job} --json"),
    "purge": ("purge --keep 1000", "purge --keep 1000 --json"),
    "trace": ("trace {job} --json",),
    "replay": ("replay {job}",),
    "validate": ("validate {file}",),
    "convert": ("convert {xml}",),
    "settings": ("settings",),
    "completion": ("completion bash",),
    "mini": ("mini status", "mini status --json", "mini --help"),
    "version": ("version", "--version", "--help", "status --help"),
}
#: Lines that are refused with 2, whatever the standard streams are.
REFUSED = ("status missing", "status missing --json", "frobnicate", "status --frobnicate", "submit missing.toml", "--x")

#: A shell's redirection -> exit code of a command that would answer 0.
FATES = {
    ">&-": 0,
    "2>&-": 0,
    ">&- 2>&-": 0,
    "<&- >&- 2>&-": 0,
    "2> >(:)": 0,
    "2> /dev/full": 0,
    "> /dev/full": 3,
    "> >(:)": 141,
    "> >(:) 2> >(:)": 141,
}
#: What every line meets; the line that stands for all commands meets all fates.
SAMPLE = (">&- 2>&-", "> /dev/full", "> >(:)")
MEETS_ALL = "status {job}"


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Lab, str, Path]]:
    """A user, one finished job of theirs, and a job file."""
    with tempfile.TemporaryDirectory(prefix="tony-e2e-") as folder:
        lab = Lab(Path(folder))
        try:
            file = lab.job_file('command = "echo up"\n')
            file.with_suffix(".xml").write_text("<configuration/>", encoding="utf-8")  # a job of LinkedIn TonY
            assert lab.submit(file).returncode == 0
            yield lab, lab.only_job(), file
        finally:
            lab.close()


def bash(lab: Lab, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], env=lab.env, cwd=lab.root, capture_output=True, text=True, timeout=120, check=False
    )


def command(place: tuple[Lab, str, Path], line: str) -> str:
    """A line as the shell takes it."""
    _, job, file = place
    names = {"file": file, "xml": file.with_suffix(".xml")}
    return f"{shlex.quote(TONY)} {line.format(job=job, **{key: shlex.quote(str(path)) for key, path in names.items()})}"


def suffer(
    place: tuple[Lab, str, Path], cases: Sequence[tuple[str, str]]
) -> list[tuple[tuple[str, str], subprocess.CompletedProcess[str]]]:
    """Runs lines, each with its fate; some at one time, for most of it is the start of an interpreter.

    The reader is gone for certain before the command begins: `:` ends at once, and bash waits for it.
    """

    def run(case: tuple[str, str]) -> subprocess.CompletedProcess[str]:
        line, fate = case
        return bash(place[0], f"{{ sleep 0.05; exec {command(place, line)}; }} {fate}")

    with ThreadPoolExecutor(2) as at_a_time:
        return list(zip(cases, at_a_time.map(run, cases), strict=True))


def assert_quiet(done: subprocess.CompletedProcess[str], what: str) -> None:
    """No word of Python's, and no bug of ours."""
    said = f"{what}: {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    for word in ("Traceback", "Exception ignored", "bug in tony", "BrokenPipe"):
        assert word not in done.stderr, said


def test_every_command_is_here() -> None:
    """A new command needs a line here."""
    assert set(LINES) == set(COMMANDS)


@pytest.mark.parametrize("name", LINES)
def test_streams_that_take_nothing(place: tuple[Lab, str, Path], name: str) -> None:
    """Closed is as /dev/null; a full disk is the machine's fault; a reader that has gone has seen enough."""
    lab = place[0]
    cases = [(line, fate) for line in LINES[name] for fate in (FATES if line == MEETS_ALL else SAMPLE)]
    for (line, fate), done in suffer(place, cases):
        code = FATES[fate]
        assert_quiet(done, f"{line} {fate}")
        assert done.returncode == code, f"{line} {fate}: {done.returncode}\n{done.stderr}"
        if "2>" not in fate and code == 3:
            assert "No space left on device" in done.stderr
    assert not list(lab.home.glob("crash-*"))


@pytest.mark.parametrize("name", LINES)
def test_head(place: tuple[Lab, str, Path], name: str) -> None:
    """It gets its line, without an error; what was printed before the end is there."""
    lab = place[0]
    for line in LINES[name]:
        done = bash(lab, f"{command(place, line)} | head -n 1; exit ${{PIPESTATUS[0]}}")
        assert_quiet(done, line)
        assert done.returncode in (0, 141), line
        assert done.stdout.count("\n") == 1, line


def test_head_of_a_long_output(place: tuple[Lab, str, Path]) -> None:
    """More than a pipe holds: the command ends as soon as its reader is gone."""
    lab = place[0]
    job = lab.tony("run", "--detach", "--", "seq", "200000").stdout.strip()
    assert lab.wait(job)["state"] == "succeeded"
    done = bash(lab, f"{command(place, f'logs {job}')} | head -n 2; exit ${{PIPESTATUS[0]}}")
    assert_quiet(done, "logs")
    assert (done.returncode, done.stdout) == (141, "1\n2\n")


def test_head_of_a_job_that_is_followed(place: tuple[Lab, str, Path]) -> None:
    """The job continues without the follower, which prints that."""
    lab = place[0]
    script = "for i in $(seq 5000); do echo line $i of many without a reader; done; sleep 1; echo last"
    file = lab.file("many.toml", f'command = "{script}"\n')
    done = bash(lab, f"{shlex.quote(TONY)} submit {file} | head -n 3; exit ${{PIPESTATUS[0]}}")
    assert_quiet(done, "submit")
    assert (done.returncode, done.stdout.count("\n")) == (141, 3)
    job = lab.jobs()[-1]
    assert f"job {job} continues; stop it with: tony kill {job}" in done.stderr
    assert lab.wait(job)["state"] == "succeeded"
    assert "last" in lab.wait_output(job, "main:0", "last")


@pytest.mark.parametrize("line", REFUSED)
def test_a_refusal_with_broken_standard_error(place: tuple[Lab, str, Path], line: str) -> None:
    """The exit code is the same."""
    for (_, fate), done in suffer(
        place, [(line, fate) for fate in ("2>&-", "<&- >&- 2>&-", "2> /dev/full", "> >(:) 2> >(:)")]
    ):
        assert_quiet(done, f"{line} {fate}")
        assert done.returncode == 2, f"{line} {fate}: {done.returncode}\n{done.stderr}"


def test_a_failure_with_broken_standard_error(place: tuple[Lab, str, Path]) -> None:
    """The exit code is the job's."""
    lab = place[0]
    file = lab.file("failing.toml", 'command = "exit 7"\n')
    for (_, fate), done in suffer(place, [(f"submit {file}", fate) for fate in FATES]):
        code = FATES[fate]
        assert_quiet(done, fate)
        assert done.returncode == (1 if code == 0 else code), f"{fate}: {done.returncode}"
