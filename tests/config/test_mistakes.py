"""Every mistake in a job file is told with its place, its value and the fix."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.config.jobs import mistakes

RUN = 'command = "python train.py"\n'

#: What is written below `command = ...` on line 1 -> the one mistake in it.
ONE_MISTAKE = [
    # names of keys
    ("max_restart = 2", "max_restart = 2 (job.toml:2): unknown key; did you mean `max_restarts`?"),
    ("Max-Restarts = 2", "Max-Restarts = 2 (job.toml:2): unknown key; did you mean `max_restarts`?"),
    ("retries = 2", "retries = 2 (job.toml:2): unknown key; did you mean `max_restarts`?"),
    ("timeout = '1h'", 'timeout = "1h" (job.toml:2): unknown key; did you mean `job_timeout`?'),
    ("colour = 'red'", 'colour = "red" (job.toml:2): unknown key; `tony settings` lists all.'),
    ('"odd key" = 1', '"odd key" = 1 (job.toml:2): unknown key; `tony settings` lists all.'),
    (
        "memory = '2g'",
        'memory = "2g" (job.toml:2): unknown key; `memory` is a setting of a role: write it below [roles.NAME].',
    ),
    (
        "memry = '2g'",
        'memry = "2g" (job.toml:2): unknown key; did you mean `memory`, a setting of a role? '
        "Write it below [roles.NAME].",
    ),
    ("[envs]\nA = '1'", "envs (job.toml:2): unknown key; did you mean `env`?"),
    ("[role.worker]", "role (job.toml:2): unknown key; did you mean `roles`?"),
    ("[roles.worker]\ncpus = 2", "roles.worker.cpus = 2 (job.toml:3): unknown key; did you mean `vcores`?"),
    ("[roles.worker]\nvcore = 2", "roles.worker.vcore = 2 (job.toml:3): unknown key; did you mean `vcores`?"),
    ("[roles.worker]\nzzz = 2", "roles.worker.zzz = 2 (job.toml:3): unknown key; `tony settings` lists all."),
    (
        "[roles.worker]\nmax_restarts = 2",
        "roles.worker.max_restarts = 2 (job.toml:3): unknown key; `max_restarts` is a setting of the job: write it "
        "above the first [section].",
    ),
    (
        "[roles.a]\n[roles.b]\nafter = { starts = ['a'] }",
        'roles.b.after.starts = ["a"] (job.toml:4): unknown key; did you mean `started`?',
    ),
    ("[scheduler.local]\ngpu = 4", "scheduler.local.gpu = 4 (job.toml:3): unknown key; did you mean `gpus`?"),
    ("[scheduler.locl]\ngpus = 4", "scheduler.locl (job.toml:2): unknown key; did you mean `local`?"),
    # tables and values in each other's places
    ("env = 'A=1'", 'env = "A=1" (job.toml:2): a table is expected: write [env] and below it NAME = ...'),
    ("params = 1", "params = 1 (job.toml:2): a table is expected: write [params] and below it NAME = ..."),
    ("roles = 3", "roles = 3 (job.toml:2): a table is expected: write [roles] and below it ROLE = ..."),
    (
        "[roles]\nworker = 4",
        "roles.worker = 4 (job.toml:3): a table is expected: write [roles.worker] and the role's settings below it.",
    ),
    ("[name]\na = 1", "name (job.toml:2): a single value is expected here, not a table."),
    ("[env]\nA = { b = 1 }", "env.A (job.toml:3): a single value is expected here, not a table."),
    ("a.b.c.d.e.f.g.h = 1", "a (job.toml:2): unknown key; `tony settings` lists all."),
    # whole numbers
    ("max_restarts = -1", "max_restarts = -1 (job.toml:2): too small. The least is 0."),
    ("max_restarts = 10000000", "max_restarts = 10000000 (job.toml:2): too large. The most is 1000000."),
    ("max_restarts = '2'", 'max_restarts = "2" (job.toml:2): a whole number is written without quotes: 2.'),
    ("max_restarts = 'two'", 'max_restarts = "two" (job.toml:2): a whole number is expected, not text.'),
    ("max_restarts = 2.0", "max_restarts = 2.0 (job.toml:2): a whole number is expected, not a fraction."),
    ("max_restarts = true", "max_restarts = true (job.toml:2): a whole number is expected, not a truth value."),
    ("max_restarts = [1]", "max_restarts = [1] (job.toml:2): a whole number is expected, not a list."),
    ("[roles.a]\ninstances = 0", "roles.a.instances = 0 (job.toml:3): too small. The least is 1."),
    ("[roles.a]\ninstances = -2", "roles.a.instances = -2 (job.toml:3): too small. The least is 1."),
    ("[roles.a]\ngpus = 0.5", "roles.a.gpus = 0.5 (job.toml:3): a whole number is expected, not a fraction."),
    (
        "[roles.a]\ninstances = 60_000\n[roles.b]\ninstances = 60_000",
        "roles (job.toml:2): 120000 tasks in all are too many; a job has at most 100000.",
    ),
    (
        f"max_restarts = 0x{'f' * 5000}",
        "max_restarts = a number of 20000 bits (job.toml:2): too large. The most is 1000000.",
    ),
    # sizes and durations
    (
        "[roles.a]\nmemory = 4096",
        'roles.a.memory = 4096 (job.toml:3): a size needs a unit. Write "4096m" (MiB) or "4096g" (GiB).',
    ),
    (
        "[roles.a]\nmemory = '4096'",
        'roles.a.memory = "4096" (job.toml:3): a size needs a unit. Write "4096m" (MiB) or "4096g" (GiB).',
    ),
    (
        "[roles.a]\nmemory = 1.5",
        'roles.a.memory = 1.5 (job.toml:3): a size needs a unit. Write "1.5m" (MiB) or "1.5g" (GiB).',
    ),
    (
        "[roles.a]\nmemory = true",
        'roles.a.memory = true (job.toml:3): a size is expected, such as "2g", not a truth value.',
    ),
    ("[roles.a]\nmemory = '0m'", 'roles.a.memory = "0m" (job.toml:3): too small. The least is "1m".'),
    ("[roles.a]\nmemory = '-1g'", 'roles.a.memory = "-1g" (job.toml:3): a size cannot be negative.'),
    (
        "stop_grace = 15",
        'stop_grace = 15 (job.toml:2): a duration needs a unit. Write "15s" (seconds) or "15m" (minutes).',
    ),
    (
        "stop_grace = 'off'",
        'stop_grace = "off" (job.toml:2): not a duration. Write a number with a unit: "30s", "10m", "2h".',
    ),
    (
        "job_timeout = 60",
        'job_timeout = 60 (job.toml:2): a duration needs a unit. Write "60s" (seconds) or "60m" (minutes). '
        '"off" is no limit.',
    ),
    (
        "job_timeout = ['1h']",
        'job_timeout = ["1h"] (job.toml:2): a duration is expected, such as "30s", not a list. "off" is no limit.',
    ),
    ("heartbeat_interval = '1ms'", 'heartbeat_interval = "1ms" (job.toml:2): too small. The least is "50ms".'),
    (
        "heartbeat_interval = '30s'",
        'heartbeat_interval = "30s" (job.toml:2): heartbeat_timeout must be longer than heartbeat_interval; several '
        "times as long is usual.",
    ),
    # words
    ("name = 5", "name = 5 (job.toml:2): text is expected, not a whole number. Text stands in quotes."),
    ("name = 1.5", "name = 1.5 (job.toml:2): text is expected, not a fraction. Text stands in quotes."),
    ("name = 2024-01-01", "name = 2024-01-01 (job.toml:2): text is expected, not a date. Text stands in quotes."),
    ("name = ' '", 'name = " " (job.toml:2): an empty name. Leave the key out to use the file\'s name.'),
    (r'name = "a\nb"', r'name = "a\nb" (job.toml:2): a name is one line of characters that can be shown.'),
    (
        f"name = '{'x' * 201}'",
        f'name = "{"x" * 78}… (job.toml:2): 201 characters are too long; a name has at most 200.',
    ),
    (r'command = "a\u0000b"', "job.toml:2: `command` is set twice; the first time in line 1."),
    (
        "distributed_mode = 'GANG'",
        'distributed_mode = "GANG" (job.toml:2): it must be "gang" or "fcfs"; did you mean `gang`?',
    ),
    ("tls = false", 'tls = false (job.toml:2): it must be "auto" or "always".'),
    (
        "[roles.a]\nkind = 'side-car'",
        'roles.a.kind = "side-car" (job.toml:3): it must be "tracked", "untracked" or "sidecar"; did you mean `sidecar`?',
    ),
    (
        "[roles.a]\nstop_on_failure = 'yes'",
        'roles.a.stop_on_failure = "yes" (job.toml:3): true or false is expected, without quotes, not text.',
    ),
    (
        "framework = 'tensorflw'",
        'framework = "tensorflw" (job.toml:2): there is no such framework; did you mean `tensorflow`?',
    ),
    (
        "framework = 'mxnet'",
        'framework = "mxnet" (job.toml:2): there is no such framework; known are tensorflow, pytorch, jax, none, '
        "standalone.",
    ),
    ("[scheduler]\nname = 'loacl'", 'scheduler.name = "loacl" (job.toml:3): there is no such scheduler; did you mean `local`?'),
    ("scheduler = 'loacl'", 'scheduler.name = "loacl" (job.toml:2): there is no such scheduler; did you mean `local`?'),
    # environment and parameters
    (
        "[env]\nFLAG = true",
        "env.FLAG = true (job.toml:3): true and false are spelled differently everywhere: write text, such as \"1\".",
    ),
    ("[env]\nA = ['x']", 'env.A = ["x"] (job.toml:3): text is expected, not a list. Text stands in quotes.'),
    ("[env]\nAPI_TOKEN = ['x']", "env.API_TOKEN = *** (job.toml:3): text is expected, not a list. Text stands in quotes."),
    ("[env]\n'A=B' = '1'", 'env."A=B" (job.toml:3): a variable\'s name cannot be empty or contain `=`.'),
    (
        "[env]\nTONY_TASK = '1'",
        "env.TONY_TASK (job.toml:3): this variable is ours: it marks what belongs to a task. Choose another name.",
    ),
    (r'env.A = "x\u0000"', r'env.A = "x\u0000" (job.toml:2): text cannot contain the character NUL.'),
    (
        "[params]\n'a b' = 1",
        'params."a b" (job.toml:3): a parameter\'s name is up to 100 letters, digits, `-`, `_` and `.`.',
    ),
    (
        "env.X = '{params.lr}'",
        'env.X = "{params.lr}" (job.toml:2): {params.lr} names a parameter that is not in [params]: the job has none.',
    ),
    (
        "env.X = '{params.steps}'\nparams.step = 1",
        'env.X = "{params.steps}" (job.toml:2): {params.steps} names a parameter that is not in [params]: the job has '
        "step; did you mean {params.step}?",
    ),
    (
        "[roles.a]\ncommand = ['run', '{params.lr}']",
        'roles.a.command[1] = "{params.lr}" (job.toml:3): {params.lr} names a parameter that is not in [params]: '
        "the job has none.",
    ),
    # commands
    ("[roles.a]\ncommand = ''", 'roles.a.command = "" (job.toml:3): an empty command. Write what to run: "python train.py".'),
    (
        "[roles.a]\ncommand = []",
        'roles.a.command = [] (job.toml:3): an empty command. Write what to run: ["python", "train.py"].',
    ),
    (
        "[roles.a]\ncommand = 5",
        'roles.a.command = 5 (job.toml:3): a command is text, "python train.py", or a list, ["python", "train.py"], '
        "not a whole number.",
    ),
    (
        "[roles.a]\ncommand = ['run', true, {}]",
        "roles.a.command[1] = true (job.toml:3): true and false are spelled differently everywhere: write text, such "
        'as "1".\n'
        "roles.a.command[2] = {} (job.toml:3): text is expected, not a table. Text stands in quotes.",
    ),
    # ports
    (
        "port_range = 20000",
        'port_range = 20000 (job.toml:2): a range of ports is written "20000-20100" or [20000, 20100].',
    ),
    (
        "port_range = [1, 2, 3]",
        'port_range = [1, 2, 3] (job.toml:2): a range of ports is written "20000-20100" or [20000, 20100].',
    ),
    (
        "port_range = '20100-20000'",
        'port_range = "20100-20000" (job.toml:2): the first port is above the last one. Write "20000-20100".',
    ),
    ("port_range = '80-90'", 'port_range = "80-90" (job.toml:2): ports go from 1024 to 65535.'),
    ("port_range = [60000, 70000]", "port_range = [60000, 70000] (job.toml:2): ports go from 1024 to 65535."),
    # roles, groups, start order
    (
        "[roles.'my role']",
        "roles.\"my role\" (job.toml:2): a role's name is up to 63 letters, digits, `-` and `_`, the first one a letter.",
    ),
    (
        "[roles.1st]",
        "roles.1st (job.toml:2): a role's name is up to 63 letters, digits, `-` and `_`, the first one a letter.",
    ),
    (
        "[roles.a]\nkind = 'sidecar'",
        'roles (job.toml:2): no role is tracked, so the job would be over at once. Give one kind = "tracked".',
    ),
    (
        "[roles.a]\n[groups]\n'g h' = ['a']",
        "groups.\"g h\" (job.toml:4): a group's name is up to 63 letters, digits, `-` and `_`, the first one a letter.",
    ),
    ("[groups]\ng = []", "groups.g = [] (job.toml:3): an empty group. Name its roles, or remove it."),
    ("[groups]\ng = 'main'", 'groups.g = "main" (job.toml:3): a list is expected: ["main"].'),
    ("[groups]\ng = ['mian']", 'groups.g[0] = "mian" (job.toml:3): there is no role "mian"; did you mean `main`?'),
    (
        "[roles.a]\n[groups]\ng = [\n  'a',\n  'zzz',\n]",
        'groups.g[1] = "zzz" (job.toml:6): there is no role "zzz"; known are a.',
    ),
    ("[roles.a]\nafter = 'b'", 'roles.a.after = "b" (job.toml:3): a list is expected: ["b"].'),
    ("[roles.ab]\nafter = ['aa']", 'roles.ab.after[0] = "aa" (job.toml:3): there is no role "aa"; known are ab.'),
    (
        "[roles.worker]\n[roles.b]\nafter = { ended = ['workr'] }",
        'roles.b.after.ended[0] = "workr" (job.toml:4): there is no role "workr"; did you mean `worker`?',
    ),
    (
        "[roles.a]\n[roles.b]\nafter = { ended = ['a'], started = ['a'] }",
        'roles.b.after.started[0] = "a" (job.toml:4): a is waited for in two ways, ended and started. Choose one.',
    ),
    (
        "[roles.a]\nafter = ['a']",
        'roles.a.after = ["a"] (job.toml:3): these roles wait for each other: a -> a. None could ever start.',
    ),
    (
        "[roles.a]\nafter = ['c']\n[roles.b]\nafter = { started = ['a'] }\n[roles.c]\nafter = { ended = ['b'] }",
        'roles.a.after = ["c"] (job.toml:3): these roles wait for each other: a -> c -> b -> a. None could ever start.',
    ),
    (
        "[roles.a]\n[roles.e]\ntimeout_after = { group = 'g', limit = '1m' }",
        'roles.e.timeout_after.group = "g" (job.toml:4): there is no group of this name; write g = ["chief", "worker"] '
        "below [groups].",
    ),
    (
        "[roles.e]\ntimeout_after = { group = 'trainer', limit = '1m' }\n[roles.a]\n[groups]\ntrainers = ['a']",
        'roles.e.timeout_after.group = "trainer" (job.toml:3): there is no group of this name; did you mean `trainers`?',
    ),
    (
        "[roles.e]\ntimeout_after = { group = 'g', limit = '1m' }\n[groups]\ng = ['e']",
        'roles.e.timeout_after.group = "g" (job.toml:3): the role is in this group itself, which cannot be done before '
        "it.",
    ),
    (
        "[roles.e]\ntimeout_after = { on_timeout = 'ignore' }",
        'roles.e.timeout_after (job.toml:3): `group` is missing. Write group = "trainers" into it.\n'
        'roles.e.timeout_after (job.toml:3): `limit` is missing. Write limit = "10m" into it.',
    ),
    (
        "[roles.a]\n[roles.e]\ntimeout_after = { group = 'g', limit = 5, on_timeout = 'kill' }\n[groups]\ng = ['a']",
        'roles.e.timeout_after.limit = 5 (job.toml:4): a duration needs a unit. Write "5s" (seconds) or "5m" (minutes).\n'
        'roles.e.timeout_after.on_timeout = "kill" (job.toml:4): it must be "fail" or "ignore".',
    ),
    (
        "stop_on = 'chief'\n[roles.trainer]",
        'stop_on = "chief" (job.toml:2): the job has no chief: no role is called `chief` or `worker`.',
    ),
    (
        "stop_on = 'chief'\n[roles.chief]\nkind = 'sidecar'\n[roles.a]",
        'stop_on = "chief" (job.toml:2): the chief is chief:0, and its role is a sidecar, whose result does not count.',
    ),
    # what only a framework sees
    (
        "framework = 'pytorch'\ndistributed_mode = 'fcfs'\n[roles.worker]",
        'distributed_mode = fcfs (job.toml:3): framework = "pytorch" tells every program where rank 0 listens, and that '
        'is not known before all have registered. Write distributed_mode = "gang", or framework = "none" if the '
        "programs do not need each other.",
    ),
]


@pytest.mark.parametrize(("text", "expected"), ONE_MISTAKE, ids=[text[:60] for text, _ in ONE_MISTAKE])
def test_a_mistake_is_told_with_place_value_and_fix(tmp_path: Path, text: str, expected: str) -> None:
    """Each file has one mistake (or as many as it must), and nothing else is complained about."""
    assert expected.split("\n") == mistakes(tmp_path, RUN + text)


def test_no_command_anywhere_is_a_mistake(tmp_path: Path) -> None:
    """A job of one task needs the job's command."""
    assert ['command: no command: nothing says what to run. Write command = "python train.py".'] == mistakes(tmp_path, "")


def test_each_role_without_a_command_is_named(tmp_path: Path) -> None:
    """Roles need a command of their own when the job has none."""
    text = "[roles.a]\n[roles.b]\ncommand = 'run'\n[roles.c]\n"
    expected = 'no command: neither this role nor the job has one. Write command = "python train.py".'
    assert [f"roles.a (job.toml:1): {expected}", f"roles.c (job.toml:4): {expected}"] == mistakes(tmp_path, text)


def test_a_command_that_slipped_below_a_section_is_found(tmp_path: Path) -> None:
    """In TOML everything below [env] is a variable: the usual slip is told as what it is."""
    assert [
        "command: no command: the one in job.toml:3 stands below [env]; write it above the first [section]."
    ] == mistakes(tmp_path, "[env]\nA = 1\ncommand = 'python train.py'\n")


def test_an_argument_that_linux_cannot_take_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    """One argument or variable has at most 128 KiB."""
    long = "x" * 131_072
    cut = '"' + "x" * 78 + "…"
    text = f"command = '{long}'\n[env]\nA = '{long[5:]}'\nLONGER = '{long[5:]}'\nLIST = '{long[:-1]}'"
    assert [
        f"command = {cut} (job.toml:1): 131072 bytes are too long: Linux takes at most 131071 in one argument or variable.",
        f"env.LONGER = {cut} (job.toml:4): 131074 bytes with its name are too long: Linux takes at most 131071.",
        f"env.LIST = {cut} (job.toml:5): 131076 bytes with its name are too long: Linux takes at most 131071.",
    ] == mistakes(tmp_path, text)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Nobody has to mend a file twenty times."""
    text = """\
name = 3
framework = "tensrflow"
max_restart = 2
command = "train --lr {params.lr}"
source = "nowhere"
files = ["gone.txt", 3, "x::/abs"]
stop_grace = 15
[roles.worker]
instances = 0
memory = "4096"
after = ["export", "chef"]
timeout_after = { group = "trainer" }
[roles."a b"]
gpus = -1
[roles.export]
after = { ended = ["worker"] }
[groups]
trainers = ["chief", "worker"]
[params]
LR = [1]
[scheduler]
name = "lcal"
local = { memory = 8 }
"""
    found = mistakes(tmp_path, text, sets=["stopgrace=1s", "=3"], params=["x"], environ={"TONY_SET_TLS": "no"})
    heads = [re.split(r"[:;] (?=[a-z`{\"0-9])", line)[0] for line in found]
    assert [
        "name = 3 (job.toml:1)",
        'framework = "tensrflow" (job.toml:2)',
        "max_restart = 2 (job.toml:3)",
        'command = "train --lr {params.lr}" (job.toml:4)',
        'source = "nowhere" (job.toml:5)',
        "files[1] = 3 (job.toml:6)",
        'files[2] = "x::/abs" (job.toml:6)',
        'files[0] = "gone.txt" (job.toml:6)',
        "stop_grace = 15 (job.toml:7)",
        "roles.worker.instances = 0 (job.toml:9)",
        'roles.worker.memory = "4096" (job.toml:10)',
        'roles.worker.after[1] = "chef" (job.toml:11)',
        'roles.worker.after = ["export", "chef"] (job.toml:11)',
        "roles.worker.timeout_after (job.toml:12)",
        'roles.worker.timeout_after.group = "trainer" (job.toml:12)',
        'roles."a b" (job.toml:13)',
        "roles.a b.gpus".replace("a b", '"a b"') + " = -1 (job.toml:14)",
        'groups.trainers[0] = "chief" (job.toml:18)',
        "params.LR = [1] (job.toml:20)",
        'scheduler.name = "lcal" (job.toml:22)',
        "scheduler.local.memory = 8 (job.toml:23)",
    ] == [head for head in heads if "job.toml" in head]
    assert [
        '--set: "=3": write --set key=value, such as --set max_restarts=2.',
        '--param: "x": write --param name=value, such as --param lr=0.1.',
    ] == [line for line in found if ": write --" in line]
    assert 'tls = "no" (env TONY_SET_TLS): it must be "auto" or "always".' in found
    assert 'stopgrace = "1s" (--set): unknown key; did you mean `stop_grace`?' in found
    assert 25 == len(found)
