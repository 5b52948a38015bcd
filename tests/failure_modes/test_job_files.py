"""Mistakes in what a job says: told with the thing, its value, its place and the way out, wherever they stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.lab import Lab
from tests.failure_modes.refusals import python, refused

pytestmark = pytest.mark.e2e

#: A script that submits a job given as JSON, and tells what is wrong with it as the command line does.
SUBMIT = """
import json, sys, tony
try:
    tony.submit(json.loads(sys.argv[1]))
except tony.ConfigError as error:
    for problem in error.problems:
        print(problem, file=sys.stderr)
    count = len(error.problems)
    print(f"tony: {count} error{'s' if count != 1 else ''}; nothing was started.", file=sys.stderr)
    sys.exit(error.exit_code)
"""
RUN = 'command = "true"\n'
SIZE = 'Write "4096m" (MiB) or "4096g" (GiB).'
NO_COMMAND = 'no command is set. Write command = "python train.py".'
BAD_NAME = "a role name is up to 63 letters, digits, `-` and `_`, beginning with a letter."


def told_everywhere(lab: Lab, key: str, value: str, message: str) -> None:
    """The same mistake in a TOML file, a YAML file, a flag, a variable and a call from Python."""
    job = lab.job_file(f"{RUN}{key} = {value}\n")
    refused(lab, lab.submit(job), f"{key} = {value} ({job}:2): {message}")
    refused(lab, lab.tony("validate", job), f"{key} = {value} ({job}:2): {message}")
    given = nested(key, json.loads(value))
    yaml = lab.file("job.yaml", json.dumps(given))
    refused(lab, lab.submit(yaml), f"{key} = {value} ({yaml}:1): {message}")
    good = lab.job_file(RUN)
    refused(lab, lab.submit(good, "--set", f"{key}={value}"), f"{key} = {value} (--set): {message}")
    variable = f"TONY_SET_{key.upper().replace('.', '__')}"
    refused(lab, lab.submit(good, env={variable: value}), f"{key} = {value} (env {variable}): {message}")
    refused(lab, python(lab, SUBMIT, json.dumps(given)), f"{key} = {value} (argument): {message}")


def nested(key: str, value: object) -> dict[str, Any]:
    """A job as a table of tables."""
    *outer, name = key.split(".")
    job: dict[str, Any] = {"command": "true"}
    table = job
    for part in outer:
        table = table.setdefault(part, {})
    table[name] = value
    return job


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("max_restart", "unknown key; did you mean `max_restarts`?"),
        ("roles.worker.memry", "unknown key; did you mean `memory`?"),
        ("colour", "unknown key; `tony settings --all` lists the known ones."),
    ],
)
def test_an_unknown_key(lab: Lab, key: str, message: str) -> None:
    """The nearest one is named if there is one."""
    told_everywhere(lab, key, "2", message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max_restarts", '"two"', "expected a whole number, not text."),
        ("max_restarts", "2.5", "expected a whole number, not a fraction."),
        ("roles.worker.memory", "[1]", 'expected a size such as "2g", not a list.'),
        ("roles.worker.stop_on_failure", '"yes"', "expected true or false, without quotes, not text."),
        ("roles", "3", "expected a table: write [roles] and below it ROLE = ..."),
    ],
)
def test_a_wrong_type(lab: Lab, key: str, value: str, message: str) -> None:
    """What is expected is named, and what was given."""
    told_everywhere(lab, key, value, message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("stop_grace", "15", 'a duration needs a unit. Write "15s" (seconds) or "15m" (minutes).'),
        ("roles.worker.memory", "4096", f"a size needs a unit. {SIZE}"),
        ("roles.worker.memory", '"4096"', f"a size needs a unit. {SIZE}"),
    ],
)
def test_a_missing_unit(lab: Lab, key: str, value: str, message: str) -> None:
    """Both ways to mend it are written out."""
    told_everywhere(lab, key, value, message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("roles.worker.instances", "-2", "too small. The minimum is 1."),
        ("roles.worker.gpus", "-1", "too small. The minimum is 0."),
        ("max_restarts", "-1", "too small. The minimum is 0."),
        ("roles.worker.memory", '"-1g"', "a size cannot be negative."),
        ("stop_grace", '"-5s"', "a duration cannot be negative."),
    ],
)
def test_a_negative_count(lab: Lab, key: str, value: str, message: str) -> None:
    """The least is named."""
    told_everywhere(lab, key, value, message)


def test_a_negative_count_of_run(lab: Lab) -> None:
    """Its own options refuse it, too."""
    for words in (("-n", "-1"), ("-n", "0"), ("--gpus", "-1"), ("--vcores", "0")):
        done = lab.tony("run", *words, "--", "true")
        assert done.returncode == 2
        assert f"'{words[1]}': must be a whole number, " in done.stderr
    refused(
        lab,
        lab.tony("run", "--role", "ps=-3", "--", "true"),
        "roles.ps.instances = -3 (--role): too small. The minimum is 1.",
    )


def test_no_command(lab: Lab) -> None:
    """Missing, empty, blank, or slipped below a section: the place where it belongs is named."""
    job = lab.job_file("max_restarts = 1\n")
    refused(lab, lab.submit(job), f"command ({job}): {NO_COMMAND}")
    refused(lab, python(lab, SUBMIT, "{}"), f"command: {NO_COMMAND}")
    for empty in ('""', '"  "'):
        refused(
            lab,
            lab.submit(lab.job_file(f"command = {empty}\n")),
            f'command = {empty} ({job}:1): the command is empty. Write what to run: "python train.py".',
        )
    for empty in ("[]", '[""]', '[" ", "x"]'):
        refused(
            lab,
            lab.submit(lab.job_file(f"command = {empty}\n")),
            f'command = {empty} ({job}:1): the command is empty. Write what to run: ["python", "train.py"].',
        )
    lab.job_file('[env]\ncommand = "true"\n')
    stray = f"no command: the one in {job}:2 is in the table [env]; move it above the first [section]."
    refused(lab, lab.submit(job), f"command ({job}): {stray}")
    lab.job_file('[roles.a]\ncommand = "true"\n[roles.b]\n')
    refused(
        lab,
        lab.submit(job),
        f'roles.b ({job}:3): no command: neither the role nor the job has one. Write command = "python train.py".',
    )


def test_run_without_a_command(lab: Lab) -> None:
    """Nothing behind `--`, or an empty word."""
    for words in ((), ("--",)):
        done = lab.tony("run", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Missing argument '-- COMMAND...'" in done.stderr
    told = 'command = [""] (COMMAND): the command is empty. Write what to run: ["python", "train.py"].'
    refused(lab, lab.tony("run", "--source", "", "--", ""), told)


#: Names of roles that would be trouble in file names, tables, environment variables or on a terminal.
ODD = [
    "", " ", "my role", "1st", "-a", "_a", "a.b", "a/b", "../up", "a:b", "a=b", "ä", "работа", "工", "🎉", "e\u0301",
    "\u202elive", "\u001b[31mred", "[bold]", "a\nb", "a\u0000", "x" * 64,
]  # fmt: skip


def test_role_names_with_odd_characters(lab: Lab) -> None:
    """All are told at once, each in its line, and none of them reaches the terminal as it is."""
    tables = "".join(f"[roles.{json.dumps(name, ensure_ascii=False)}]\n" for name in ODD)
    job = lab.job_file(RUN + tables)
    done = lab.submit(job)
    told = done.stderr.splitlines()
    assert len(told) == len(ODD) + 1, done.stderr
    for number, line in enumerate(told[:-1], start=2):
        assert line.startswith("roles.")
        assert line.endswith(f" ({job}:{number}): {BAD_NAME}")
    assert not set(done.stderr) & set("\u001b\u202e\u0000")
    refused(lab, done, *told[:-1])
    refused(lab, lab.tony("run", "--role", "a b=1", "--", "true"), f'roles."a b" (--role): {BAD_NAME}')
    refused(lab, lab.submit(lab.job_file(RUN), "--set", 'roles."a b".instances=1'), f'roles."a b" (--set): {BAD_NAME}')
    refused(
        lab, python(lab, SUBMIT, '{"command": "true", "roles": {"a/b": {}}}'), f'roles."a/b" (argument): {BAD_NAME}'
    )


def test_role_names_that_are_allowed(lab: Lab) -> None:
    """The longest, with everything that may be in one; its files are named after it."""
    name = f"A-{'z' * 59}_9"
    done = lab.submit(lab.job_file(f'command = "echo I am {{role}}"\n[roles.{name}]\n'))
    assert done.returncode == 0, done.stderr
    logs = lab.home / "jobs" / lab.only_job() / "logs"
    assert (logs / f"{name}-0.s1.t1.out").read_text() == f"I am {name}\n"


def test_a_cycle_in_after(lab: Lab) -> None:
    """With itself, of two, of three by different conditions: the way round is written out."""
    job = lab.job_file(
        RUN
        + """
        [roles.self]
        after = ["self"]
        [roles.a]
        after = ["b"]
        [roles.b]
        after = { started = ["a"] }
        [roles.x]
        after = { succeeded = ["z"] }
        [roles.y]
        after = { ended = ["x"] }
        [roles.z]
        after = { started = ["y"] }
        """
    )
    told = "these roles wait for each other: {}. None can ever start."
    refused(
        lab,
        lab.submit(job),
        f'roles.self.after = ["self"] ({job}:4): {told.format("self -> self")}',
        f'roles.a.after = ["b"] ({job}:6): {told.format("a -> b -> a")}',
        f"roles.x.after ({job}:10): {told.format('x -> z -> y -> x')}",
    )


def test_a_ring_of_two_thousand_roles(lab: Lab) -> None:
    """What is told fits a screen."""
    roles = "".join(f'[roles.r{n}]\nafter = ["r{(n + 1) % 2000}"]\n' for n in range(2000))
    job = lab.job_file(RUN + roles)
    way = "r0 -> r1 -> r2 -> r3 -> r4 -> (1990 more) -> r1995 -> r1996 -> r1997 -> r1998 -> r1999 -> r0"
    told = f'roles.r0.after = ["r1"] ({job}:3): these roles wait for each other: {way}. None can ever start.'
    refused(lab, lab.submit(job), told)


def test_every_mistake_at_once(lab: Lab) -> None:
    """One of each kind in one file: all are told, in the order of the file, for people and for programs."""
    job = lab.job_file(
        """
        max_restart = 2
        max_restarts = "two"
        stop_grace = 15
        [roles."my role"]
        [roles.worker]
        instances = -1
        after = ["worker"]
        """.lstrip("\n")
    )
    done = lab.submit(job)
    lines = done.stderr.splitlines()
    assert [f"({job}:{n})" for n in (1, 2, 3, 4, 5, 6, 7)] == [
        line.split(": ")[0].split(" ")[-1] for line in lines[:-1]
    ]
    refused(lab, done, *lines[:-1])
    answer = lab.submit(job, "--json")
    assert json.loads(answer.stdout)["error"] == {"message": "\n".join(lines[:-1]), "exit_code": 2}
