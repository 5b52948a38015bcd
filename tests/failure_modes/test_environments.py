"""Users without a name or a home, and unusual locales, interpreters, time zones and checkouts."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tony
from tests.e2e.lab import CEILING, Lab, until
from tests.failure_modes.refusals import nothing_left, running
from tests.failure_modes.unknown_users import UID, become_other_user
from tony.cli.main import COMMANDS

pytestmark = pytest.mark.e2e

PACKAGE = Path(tony.__file__).parent
#: Commands that look at a job that has ended.
LOOKS = ("status", "logs", "events", "history", "replay")


def answers(lab: Lab, *words: str) -> str:
    """What a command prints that has nothing to complain about."""
    done = lab.tony(*words)
    assert (0, "") == (done.returncode, done.stderr), words
    return done.stdout


def interpreted(lab: Lab, flags: tuple[str, ...], *words: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """Runs a command as `python FLAGS -m tony`; answers exit code, output, messages."""
    done = subprocess.run(
        [*lab.prefix, sys.executable, *flags, "-m", "tony", *words],
        env=lab.env,
        cwd=cwd or lab.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CEILING,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


# --- LANG=C -----------------------------------------------------------------------------------------------------------

LOCALES = {
    "LANG": {"LANG": "C"},
    "unknown": {"LC_ALL": "xx_YY.nonsense"},
    "insisting": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES)
def test_a_job_in_the_locale_c(lab: Lab, locale: dict[str, str]) -> None:
    """Names of jobs and files, commands, variables and output are whole; the program gets the locale as it was."""
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONUTF8", "PYTHONCOERCECLOCALE"):
        lab.env.pop(name, None)
    lab.env |= locale
    text = 'name = "Größe ✓"\ncommand = "cat größe.txt; echo ✓ $X [$LC_ALL]; exit 3"\nenv = { X = "ß" }\n'
    done = lab.submit(lab.job_file(text, {"größe.txt": "ä\n"}))
    assert done.returncode == 1, done.stderr
    assert "Größe ✓" in done.stderr
    assert "Traceback" not in done.stderr
    for line in ("ä", f"✓ ß [{locale.get('LC_ALL', '')}]"):
        assert f"main:0 | {line}\n" in done.stdout
        assert f"{line}\n" in answers(lab, "logs", "last")
    for words in (("status", "last"), ("list",), ("list", "--name", "Größe ✓")):
        assert "Größe ✓" in answers(lab, *words)
    for word in LOOKS:
        answers(lab, word, "last")
    done = lab.tony("run", "--name", "weiß", "--source", "", "--", "echo", "ü")
    assert (0, "") == (done.returncode, done.stderr)
    assert "main:0 | ü\n" in done.stdout
    assert lab.status("last")["name"] == "weiß"


# --- a user without a passwd entry, HOME unset ------------------------------------------------------------------------

UNKNOWN = f"HOME is not set and user {UID} is not in the password database."


@pytest.fixture
def nameless(other_user: Lab) -> Lab:
    """A user whose name neither the password file nor the environment knows."""
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        other_user.env.pop(name, None)
    return other_user


def test_a_user_without_a_passwd_entry(nameless: Lab) -> None:
    """Their number stands for their name, and nothing else is different."""
    done = nameless.tony("run", "-n", "2", "--source", "", "--", "sh", "-c", "id -u; echo $HOME")
    assert (0, "") == (done.returncode, done.stderr)
    for line in (str(UID), nameless.env["HOME"]):
        assert f"worker:1 | {line}\n" in done.stdout
    (job,) = json.loads(answers(nameless, "list", "--json"))
    assert (job["user"], job["state"]) == (f"uid {UID}", "succeeded")
    assert f"uid {UID}" in answers(nameless, "list")
    for word in LOOKS:
        answers(nameless, word, "last")


def test_an_unknown_user(nameless: Lab) -> None:
    """Without HOME, too, one variable is all that is missing; what needs no home works without it."""
    del nameless.env["HOME"], nameless.env["XDG_CONFIG_HOME"]
    home = nameless.env.pop("TONY_HOME")
    before = sorted(nameless.root.rglob("*"))
    for words in (("run", "--source", "", "--", "true"), ("list",), *((word, "last") for word in (*LOOKS, "kill"))):
        done = nameless.tony(*words)
        told = f"tony: no home folder: {UNKNOWN} Set TONY_HOME to a folder of yours.\n"
        assert (3, "", told) == (done.returncode, done.stdout, done.stderr), words
    for words in (("--help",), ("settings",), ("version",), ("completion", "bash")):
        assert answers(nameless, *words)
    assert before == sorted(nameless.root.rglob("*"))
    done = nameless.tony("run", "--source", "", "--", "sh", "-c", "echo ${HOME-none}", env={"TONY_HOME": home})
    nameless.env["TONY_HOME"] = home
    assert (0, "") == (done.returncode, done.stderr)
    assert "main:0 | none\n" in done.stdout


def test_a_tilde_without_a_home(nameless: Lab) -> None:
    """The error names the setting; no folder called `~` is made or read."""
    del nameless.env["HOME"], nameless.env["XDG_CONFIG_HOME"]
    unknown = f"`~` is unknown: {UNKNOWN} Write the full path."
    done = nameless.tony("list", env={"TONY_HOME": "~/jobs"})
    assert (2, f"tony: TONY_HOME is ~/jobs, and {unknown}\n") == (done.returncode, done.stderr)
    done = nameless.tony("run", "--source", "~/project", "--", "true")
    told = f'source = "~/project" (--source): {unknown}\ntony: 1 error; nothing was started\n'
    assert (2, told) == (done.returncode, done.stderr)
    nothing_left(nameless)
    # What a user put into a folder of that name is no site file of ours.
    odd = nameless.root / "~" / ".config" / "tony" / "tony.toml"
    odd.parent.mkdir(parents=True)
    odd.write_text("no such setting = 1\n")
    assert nameless.tony("run", "--source", "", "--", "true").returncode == 0


@pytest.mark.parametrize("home", [None, ""])
def test_home_unset(lab: Lab, home: str | None) -> None:
    """The password file knows it: jobs run, and `~` is what it says."""
    if home is None:
        del lab.env["HOME"]
    else:
        lab.env["HOME"] = home
    del lab.env["XDG_CONFIG_HOME"]
    done = lab.tony("run", "--source", "", "--", "sh", "-c", "echo [${HOME-none}]")
    assert (0, "") == (done.returncode, done.stderr)
    assert f"main:0 | [{'none' if home is None else home}]\n" in done.stdout
    known = os.path.expanduser(f"~{subprocess.check_output(['id', '-un'], text=True).strip()}")
    done = lab.tony("run", "--source", "~/no-such-folder", "--", "true")
    told = f'source = "~/no-such-folder" (--source): {known}/no-such-folder does not exist.'
    assert (2, told) == (done.returncode, done.stderr.splitlines()[0])
    assert f"no jobs in {known}/no-such-home/jobs\n" == lab.tony("list", env={"TONY_HOME": "~/no-such-home"}).stdout


# --- a read-only checkout ---------------------------------------------------------------------------------------------


def close(folder: Path, owner: int | None = None) -> None:
    """Make all of a folder read-only, and owned by `owner` if there is one."""
    for path in (*folder.rglob("*"), folder):
        if owner is not None:
            os.chown(path, owner, owner)
        path.chmod(0o555 if path.is_dir() else 0o444)


def content(folder: Path) -> list[tuple[str, int]]:
    """Every name below a folder with the time of its last change."""
    return sorted((str(path.relative_to(folder)), path.stat().st_mtime_ns) for path in (folder, *folder.rglob("*")))


def test_a_read_only_checkout(lab: Lab) -> None:
    """Of the user's project and of this package: jobs run, write in their own folder, and nothing is written there."""
    installed, project = lab.root / "installed", lab.root / "project"
    shutil.copytree(PACKAGE, installed / "tony", ignore=shutil.ignore_patterns("__pycache__"))
    lab.file("pkg/helper.py", "SAID = 'helped'\n")
    program = "import pkg.helper, pathlib\npathlib.Path('out').write_text('x')\nprint(pkg.helper.SAID)\n"
    lab.job_file('command = "python train.py && pwd"\n[roles.worker]\ninstances = 2\n', {"train.py": program})
    if os.geteuid() == 0:  # root ignores permissions
        become_other_user(lab)
    lab.env["PYTHONPATH"] = str(installed)
    close(installed, 0 if os.geteuid() == 0 else None)
    close(project)
    before = content(installed), content(project)
    where = [*lab.prefix, sys.executable, "-c", "import tony; print(tony.__file__)"]
    assert f"{installed}/tony/__init__.py\n" == subprocess.check_output(where, env=lab.env, cwd="/", text=True)
    try:
        code, out, err = interpreted(lab, (), "submit", "job.toml", cwd=project)
        assert code == 0, err
        assert "worker:1 | helped\n" in out
        place = re.search(r"worker:1 \| (/.*)\n", out)
        assert place is not None
        assert Path(place[1]).is_relative_to(lab.home)
        for word in LOOKS:
            assert interpreted(lab, (), word, "last", cwd=project)[::2] == (0, ""), word
        assert interpreted(lab, (), "run", "--", "python", "train.py", cwd=project)[0] == 0
        assert before == (content(installed), content(project))
    finally:
        for folder in (installed, project):
            subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
    for job in lab.jobs():
        lab.wait_removed(job, 30)


# --- Python started with -O -------------------------------------------------------------------------------------------


def test_python_started_with_o(lab: Lab) -> None:
    """Without docstrings, too: jobs succeed and fail as ever, the log replays, errors and help are as always."""
    run = ("run", "-n", "2", "--source", "", "--set", "max_restarts=1", "--set", 'backoff="50ms"')
    code, out, err = interpreted(lab, ("-OO",), *run, "--", "sh", "-c", "echo from {index}; test {session} = 2")
    assert (0, True) == (code, "worker:1 | from 1\n" in out), err
    assert lab.status("last")["session"] == 2
    code, out, err = interpreted(lab, ("-OO",), "run", "--source", "", "--", "sh", "-c", "echo no; exit 3")
    assert (1, True) == (code, "main:0: exit code 3" in err)
    for word in LOOKS:
        assert interpreted(lab, ("-OO",), word, "last")[::2] == (0, ""), word
    assert "OK: replaying " in interpreted(lab, ("-OO",), "replay", "last")[1]
    code, out, err = interpreted(lab, ("-OO",), "run", "--set", "max_restarts=-1", "--", "true")
    assert (2, "") == (code, out)
    assert "1 error; nothing was started" in err
    for name in COMMANDS:
        lines = interpreted(lab, ("-OO",), name, "--help")[1].splitlines()
        assert lines[2].strip(), name
        assert not lines[2].startswith("Options:"), name
    for job in lab.jobs():
        lab.wait_removed(job, 30)
    assert running(lab) == []


def test_asserts_only_narrow_types() -> None:
    """Outside of the checks for schedulers; with `python -O` nothing changes."""
    plain = (ast.Name, ast.Attribute, ast.Compare, ast.Load, ast.Is, ast.IsNot, ast.Constant)
    told = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "conformance.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert) and "isinstance(" not in ast.unparse(node.test):
                odd = [part for part in ast.walk(node.test) if not isinstance(part, plain)]
                told += [f"{path.name}:{node.lineno}: {ast.unparse(node)}" for _ in odd[:1]]
            if isinstance(node, ast.Name) and node.id == "__debug__":
                told.append(f"{path.name}:{node.lineno}: __debug__")
    assert told == []


def test_checks_of_a_scheduler_do_not_pass_with_o() -> None:
    """They are assertions: where Python leaves these out, nothing was checked, which is told."""
    code = "import asyncio\nfrom tony.testing import conformance as c\nasyncio.run(c.check(c.clauses([])[0], None))"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "assertions are disabled" in done.stderr


# --- a time zone change -----------------------------------------------------------------------------------------------

#: Ahead of UTC by 14 hours, and behind it by 11: hardly ever the same day. POSIX counts them the other way round.
EAST, WEST = "EEE-14", "WWW11"


def test_a_time_zone_change(lab: Lab) -> None:
    """Between start and listing: times are recorded in UTC and shown in the reader's time zone."""
    done = lab.tony("run", "--source", "", "--", "true", env={"TZ": EAST})
    assert (0, "") == (done.returncode, done.stderr)
    job = lab.only_job()
    status = lab.status(job)
    submitted = status["submitted"]
    assert 0 <= time.time() - submitted < CEILING
    drawn = datetime.strptime(job[6:21], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    assert abs(drawn.timestamp() - submitted) < CEILING
    folder = Path(status["folder"])
    for log in (folder / "am.log", folder / "logs" / "main-0.executor.log"):
        lines = log.read_text(encoding="utf-8").splitlines()
        assert lines
        for line in lines:
            written = datetime.fromisoformat(line[:24].replace(",", "."))
            assert abs(written.timestamp() - submitted) < CEILING, line
    assert json.loads((folder / "summary.json").read_text())["submitted"] == submitted
    shown = {}
    for zone, hours in ((EAST, 14), (WEST, -11)):
        lab.env["TZ"] = zone
        assert lab.status(job) == status
        then = f"{datetime.fromtimestamp(submitted + hours * 3600, UTC):%H:%M:%S}"
        for words in (("list",), ("status", job), ("list", "--since", "1h")):
            assert then in answers(lab, *words), words
        assert job not in answers(lab, "list", "--since", "0s")
        shown[zone] = answers(lab, "events", job, "--json")
        assert "OK: replaying " in answers(lab, "replay", job)
    assert shown[EAST] == shown[WEST]
    lab.env["TZ"] = "no such zone"
    assert job in answers(lab, "list")


@pytest.mark.parametrize("back", [False, True], ids=["begins", "ends"])
def test_a_job_runs_while_summer_time_changes(lab: Lab, back: bool) -> None:
    """Local clocks jump by an hour, and nothing of the job does: no time-out, no order, no duration."""
    gate = lab.root / "gate"
    ticks = f'command = "until test -e {gate}; do date +%H:%M:%S; sleep 0.1; done"\n'
    text = f'{ticks}heartbeat_interval = "100ms"\nheartbeat_timeout = "20s"\njob_timeout = "100s"\n'
    for seconds in (4, 8, 16, 32):  # on a loaded machine a job may start after the clocks have changed
        change = time.time() + seconds
        lab.env["TZ"] = zone_that_changes(change, back=back)
        job = lab.detach(lab.job_file(text))
        lab.wait(job, "running")
        if time.time() < change:
            break
        gate.touch()
        lab.wait(job)
        gate.unlink()
    else:
        pytest.fail("no job was running before the clocks changed")
    until(lambda: time.time() > change + 1, "clocks have changed")
    new = f"\n{datetime.fromtimestamp(time.time() + (0 if back else 3600), UTC):%H:}"
    lab.wait_output(job, "main:0", new)  # the program's clock has jumped
    gate.touch()
    status = lab.wait(job)
    assert (status["state"], status["session"], status["exit_code"]) == ("succeeded", 1, 0)
    assert 0 < status["ended"] - status["submitted"] < CEILING
    entries = [json.loads(line) for line in answers(lab, "events", job, "--json").splitlines()]
    walls = [entry["wall"] for entry in entries]
    assert walls == sorted(walls)
    assert walls[-1] - walls[0] < CEILING
    took = re.search(r"took ([\d.]+) s", answers(lab, "status", job))
    assert took is not None
    assert float(took[1]) < CEILING
    assert job in answers(lab, "list", "--since", "10m")
    assert "OK: replaying " in answers(lab, "replay", job)
    lab.wait_removed(job, 30)


def zone_that_changes(moment: float, *, back: bool) -> str:
    """A time zone of UTC, an hour ahead in its summer, which begins or ends at a moment."""
    # POSIX names the local time before the change: that of summer when summer ends.
    local = time.gmtime(int(moment) + (3600 if back else 0))
    there = f"{local.tm_yday - 1}/{local.tm_hour}:{local.tm_min:02}:{local.tm_sec:02}"
    other = f"{(local.tm_yday + 100) % 365}/0"
    return f"STD0SUM,{other},{there}" if back else f"STD0SUM,{there},{other}"
