"""Every way a command can end becomes an exit code and, where something is wrong, a sentence."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Tony
from tests.jobs.fake_am import JOB, recorded, succeeded
from tony.cli import main as front
from tony.cli.main import COMMANDS, main
from tony.config.table.settings_table import SETTINGS
from tony.errors import (
    ConfigError,
    ConnectionFailedError,
    KilledError,
    PlatformError,
    Problem,
    RecordError,
    UnknownJobError,
)
from tony.frameworks.registry import names
from tony.history.job_record import write_summary
from tony.model.state_directory import Home

RUN = "import sys; from tony.cli.main import main; sys.exit(main())"


def in_shell(line: str, home: Home, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a line of bash in which `tony` is ours."""
    script = f"tony() {{ {sys.executable} -c '{RUN}' \"$@\"; }}\n{line}"
    source = str(Path(front.__file__).parents[2])
    variables = {**os.environ, "TONY_HOME": str(home.path), "PYTHONPATH": source, **environment}
    return subprocess.run(["bash", "-c", script], env=variables, capture_output=True, timeout=60, check=False)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    def replace(do: Callable[[], object]) -> None:
        monkeypatch.setattr(front.Commands, "get_command", lambda self, ctx, name: click.Command(name, callback=do))

    return replace


def raising(error: BaseException) -> Callable[[], object]:
    def do() -> object:
        raise error

    return do


def test_help_names_every_command(tony: Tony) -> None:
    """In the order in which one needs them."""
    answer = tony("--help")
    assert answer.code == 0
    lines = answer.out.split("\nRun:\n")[1].splitlines()
    assert [line.split()[0] for line in lines if re.match(r"  \S", line)] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_page_matches_each_commands_help(tony: Tony, name: str) -> None:
    """The list is written by hand so that nothing has to be loaded for it; this test keeps it true."""
    found = front.root.get_command(click.Context(front.root), name)
    assert found is not None
    said = found.get_short_help_str(limit=200).rstrip(".")
    listed = COMMANDS[name].rstrip(".")
    assert said.split()[0] == listed.split()[0]
    assert tony(name, "--help").code == 0


def test_the_help_of_mini_is_not_cut(tony: Tony) -> None:
    """click cuts longer descriptions."""
    from tony.cli.commands.mini import command

    assert max(len(each.get_short_help_str(limit=200)) for each in command.commands.values()) <= 45
    assert "..." not in tony("mini", "--help").out.partition("Commands:")[2]


def test_a_slip_in_the_shell_of_completion(tony: Tony) -> None:
    assert "did you mean 'zsh'?" in tony("completion", "zhs").err


def test_the_help_of_run_names_every_framework(tony: Tony) -> None:
    """The registry's, plug-ins included; and so does the table of settings."""
    words = " ".join(tony("run", "--help").out.split())
    assert f"One of {', '.join(names())}; or a plug-in." in words
    (row,) = (each for each in SETTINGS if each.path == ("framework",))
    assert [name for name in names() if f"`{name}`" not in row.meaning] == []


def loaded(home: Home, words: list[str], heavy: set[str]) -> str:
    """What a command that succeeds has loaded of some modules."""
    check = (
        f"import sys; from tony.cli.main import main; code = main({words}); "
        f"sys.exit(str((int(code), {heavy} & set(sys.modules))))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(front.__file__).parents[2]), "TONY_HOME": str(home.path)}
    command = [sys.executable, "-c", check]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    return done.stderr.decode().strip().splitlines()[-1]


def test_help_loads_nothing_heavy(home: Home) -> None:
    """It must be quick: what a command needs is loaded when it runs."""
    ours = {"tony.config.load", "tony.core.application", "tony.rpc"}
    assert loaded(home, ["--help"], {"asyncio", "rich", "cryptography", "yaml", "tomlkit", *ours}) == "(0, set())"


@pytest.mark.parametrize("words", [["list"], ["status", JOB], ["logs", JOB], ["status", "last"]])
def test_finished_jobs_need_no_am_client(home: Home, words: list[str]) -> None:
    """Nor drawing code or schedulers: half of the time of these commands."""
    folder, record = recorded(home)
    write_summary(folder, succeeded(folder, record))
    schedulers = {"tony.protocol.message_base", "tony.schedulers.client_interface", "tony.core.events"}
    assert loaded(home, words, {"asyncio", "ssl", "yaml", "tony.rpc", *schedulers}) == "(0, set())"


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["statsu", "x"], "status"),
        (["cancle", "x"], "cancel"),
        (["Status", "x"], "status"),
        (["jobs"], "list"),
        (["mini", "strt"], "start"),
        (["portal", "tokn"], "token"),
        (["list", "--limt", "3"], "--limit"),
    ],
)
def test_an_unknown_command_or_option_gets_the_nearest(tony: Tony, arguments: list[str], near: str) -> None:
    """Exit code 2, on standard error."""
    answer = tony(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert re.search(rf"[Dd]id you mean '?{near}", answer.err)


def test_help_is_no_error(tony: Tony) -> None:
    """`tony help` is `tony --help`, and `tony help status` is `tony status --help`."""
    assert tony("help") == tony("--help")
    assert tony("help", "status") == tony("status", "--help")


def test_an_unknown_command_without_a_similar_one_gets_no_suggestion(tony: Tony) -> None:
    answer = tony("xyzzy")
    assert answer.code == 2
    assert answer.err.startswith("tony: no such command 'xyzzy'\n")


@pytest.mark.parametrize(("alias", "command"), [("stop", "kill"), ("cancel", "kill"), ("ps", "list")])
def test_aliases_of_other_tools_commands(tony: Tony, alias: str, command: str) -> None:
    """They are the commands that do the same here."""
    one, other = tony(alias, "--help"), tony(command, "--help")
    assert (one.code, one.err) == (0, "")
    page, others = (answer.out.split("\n", 1)[1].split("\n  Also: ") for answer in (one, other))
    assert page[0] == others[0]
    assert f"tony {command}" in page[1]
    assert f"tony {alias}" in other.out
    overview = tony("--help").out
    assert 1 == len(re.findall(rf"\b{alias}\b", overview))  # named in the line of the command, with none of its own
    assert not re.search(rf"^ +{alias}\b", overview, re.MULTILINE)


@pytest.mark.parametrize("arguments", [["list", "--colour"], ["status"], ["list", "--state", "flying"], ["-x"]])
def test_wrong_usage(tony: Tony, arguments: list[str]) -> None:
    answer = tony(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "Usage: tony" in answer.err


def test_a_task_too_many_is_explained(tony: Tony) -> None:
    """Users expect that `status` takes a task, as `logs` does."""
    answer = tony("status", "last", "worker:1")
    assert answer.code == 2
    assert "tony logs last worker:1" in answer.err
    assert "tony logs" not in tony("status", "last", "more").err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UnknownJobError("no such job"), 2, "tony: no such job\n"),
        (ConnectionFailedError("not there"), 3, "tony: not there\n"),
        (KilledError("by ann"), 4, "tony: by ann\n"),
        (RecordError("use a newer tony"), 70, "tony: use a newer tony\n"),
        (UnknownJobError("a\x1b[2Jb\nc"), 2, "tony: a\\x1b[2Jb\ntony: c\n"),
        (
            PlatformError("odd"),
            70,
            "tony: odd\ntony: this is a bug in tony; please report it together with the job's event log\n",
        ),
        (
            ConfigError(
                [Problem(key="a", value="1", message="no.", source="job.toml:3"), Problem(key="", message="b.")]
            ),
            2,
            "a = 1 (job.toml:3): no.\nb.\ntony: 2 errors; nothing was started\n",
        ),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 3, "tony: /x: No space left on device\n"),
        (PermissionError(errno.EACCES, "Permission denied"), 3, "tony: Permission denied\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_errors_on_purpose(
    tony: Tony, command: Callable[[Callable[[], object]], None], error: BaseException, code: int, said: str
) -> None:
    """A sentence without a traceback, and the exit code of its class."""
    command(raising(error))
    answer = tony("version")
    assert (answer.code, answer.out, answer.err) == (code, "", said)


def test_a_bug_is_written_down(tony: Tony, home: Home, command: Callable[[Callable[[], object]], None]) -> None:
    """The traceback is in a file, and the person is told which."""
    command(raising(KeyError("x")))
    answer = tony("version")
    (file,) = home.path.glob("crash-*.txt")
    assert answer.code == 70
    assert (
        answer.err
        == f"tony: internal error, a bug in tony: KeyError: 'x'\ntony: please report the traceback in {file}\n"
    )
    assert file.read_text().startswith("Traceback (most recent call last):")


def test_a_bug_without_a_home_is_shown(
    tony: Tony, monkeypatch: pytest.MonkeyPatch, command: Callable[[Callable[[], object]], None]
) -> None:
    """There is no place for the file."""
    monkeypatch.setenv("TONY_HOME", "/proc/nowhere")
    command(raising(KeyError("x")))
    answer = tony("version")
    assert answer.code == 70
    assert "Traceback (most recent call last):" in answer.err


def test_a_command_answers_its_exit_code(tony: Tony, command: Callable[[Callable[[], object]], None]) -> None:
    command(lambda: 4)
    assert tony("version").code == 4
    command(lambda: None)
    assert tony("version").code == 0


def test_a_reader_that_has_seen_enough(home: Home) -> None:
    """`tony ... | head`: quiet, and not exit code 1, which says that a program failed."""
    reading, writing = os.pipe()
    os.close(reading)
    variables = {**os.environ, "TONY_HOME": str(home.path), "PYTHONPATH": str(Path(front.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", RUN, "version"],
        env=variables,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk(home: Home) -> None:
    """What cannot be printed is no success."""
    done = in_shell("tony version > /dev/full", home)
    assert (done.returncode, done.stderr) == (3, b"tony: No space left on device\n")


def test_closed_output(home: Home) -> None:
    """A parent may give us no output at all."""
    done = in_shell("tony version >&- 2>&-; echo $?", home)
    assert done.stdout == b"0\n"


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_any_locale(home: Home, locale: dict[str, str]) -> None:
    """A character that the terminal lacks is written out."""
    done = in_shell("tony status $'\\xc3\\xa4'", home, **locale)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_completion(home: Home) -> None:
    """The shell's code comes from click; commands, job ids and tasks complete."""
    recorded(home, "local-1")
    for shell in ("bash", "zsh", "fish"):
        assert b"_TONY_COMPLETE" in in_shell(f"tony completion {shell}", home).stdout
    commands = in_shell("_TONY_COMPLETE=bash_complete COMP_WORDS='tony st' COMP_CWORD=1 tony", home).stdout
    assert commands == b"plain,status\nplain,stacks\n"
    jobs = in_shell("_TONY_COMPLETE=bash_complete COMP_WORDS='tony status lo' COMP_CWORD=2 tony", home).stdout
    assert jobs == b"plain,local-1\n"
    frameworks = in_shell(
        "_TONY_COMPLETE=bash_complete COMP_WORDS='tony run --framework py' COMP_CWORD=3 tony", home
    ).stdout
    assert frameworks == b"plain,pytorch\n"
    settings = in_shell("_TONY_COMPLETE=bash_complete COMP_WORDS='tony settings max_' COMP_CWORD=2 tony", home).stdout
    assert b"plain,max_restarts\n" in settings
    tasks = in_shell("_TONY_COMPLETE=bash_complete COMP_WORDS='tony logs local-1 w' COMP_CWORD=3 tony", home).stdout
    assert tasks == b"plain,worker:0\nplain,worker:1\n"
    after_help = in_shell(
        "_TONY_COMPLETE=bash_complete COMP_WORDS='tony cluster-submit --help ' COMP_CWORD=3 tony", home
    )
    assert (after_help.stdout.strip(), after_help.stderr) == (b"", b"")


def test_main_takes_its_arguments_from_the_process(home: Home) -> None:
    assert in_shell("tony version --json", home).stdout.startswith(b'{"tony": ')
    assert main(["--version"]) == 0


def test_without_a_command_it_shows_its_help(home: Home) -> None:
    done = in_shell("tony", home)
    assert done.returncode == 2
    assert done.stderr.startswith(b"Usage: tony [OPTIONS] COMMAND")
    assert b"\\n" not in done.stderr
