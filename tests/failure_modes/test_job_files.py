"""Errors in what a job says: told with the thing, its value, its place and the way out, wherever they stand."""

from __future__ import annotations

import json

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
    print(f"tony: {count} error{'s' if count != 1 else ''}; nothing was started", file=sys.stderr)
    sys.exit(error.exit_code)
"""
RUN = 'command = "true"\n'
BAD_NAME = "a role name is up to 63 letters, digits, `-` and `_`, beginning with a letter."


def test_an_unknown_key(lab: Lab) -> None:
    """A flag and a variable need the full key; a TOML file, a YAML file and a call from Python have it around it."""
    key, value, message = "roles.worker.memry", "2", "unknown key; did you mean `memory`?"
    full = "unknown key; did you mean `roles.worker.memory`?"
    job = lab.job_file(f"{RUN}{key} = {value}\n")
    refused(lab, lab.submit(job), f"{key} = {value} ({job}:2): {message}")
    refused(lab, lab.tony("validate", job), f"{key} = {value} ({job}:2): {message}")
    given = json.dumps({"command": "true", "roles": {"worker": {"memry": 2}}})
    yaml = lab.file("job.yaml", given)
    refused(lab, lab.submit(yaml), f"{key} = {value} ({yaml}:1): {message}")
    good = lab.job_file(RUN)
    refused(lab, lab.submit(good, "--set", f"{key}={value}"), f"{key} = {value} (--set): {full}")
    variable = f"TONY_SET_{key.upper().replace('.', '__')}"
    refused(lab, lab.submit(good, env={variable: value}), f"{key} = {value} (env {variable}): {full}")
    refused(lab, python(lab, SUBMIT, given), f"{key} = {value} (argument): {message}")


def test_run_without_a_command(lab: Lab) -> None:
    for words in ((), ("--",)):
        done = lab.tony("run", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "missing argument '-- COMMAND...'" in done.stderr
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


def test_all_errors_at_once(lab: Lab) -> None:
    """One of each kind in one file: all are reported, in file order, as text and as JSON."""
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
