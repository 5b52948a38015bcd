"""`tony run -- COMMAND...`."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

import click
from click.shell_completion import CompletionItem

from tony.cli.options import Count, TextType
from tony.cli.submission import parse_pair, parse_variable, setting_options, submit_and_follow, submit_options
from tony.config.files.overrides import parse_flag_value
from tony.config.load import load
from tony.config.table.settings_table import Key
from tony.frameworks.registry import names

_ROLE_FORM = "NAME=N[,KEY=VALUE...], such as ps=1,memory=512m"
#: The role of `-n`, and the role of a job without roles.
_WORKER_ROLE = "worker"
_SINGLE_ROLE = "main"
#: Interpreters: the job is named after the word that follows.
_INTERPRETERS = ("python", "bash", "sh", "env", "exec")
_MAX_NAME_LENGTH = 60
#: Setting -> the option that sets it.
_OPTIONS = {
    "command": "COMMAND",
    "name": "--name",
    "source": "--source",
    "framework": "--framework",
    "python": "--python",
    "env": "--env",
    "files": "--file",
    "scheduler": "--scheduler",
}
#: Settings that have an option for all roles.
_ROLE_OPTIONS = ("memory", "vcores", "gpus", "procs_per_task")
#: A word that may be the name of a program or an option, and is not a piece of code.
_FILE = re.compile(rf"[\w.+-]{{1,{_MAX_NAME_LENGTH}}}")


class FrameworkParameter(TextType):
    """The name of a framework; the value is the text."""

    name = "framework"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the installed frameworks."""
        return [CompletionItem(word) for word in names() if word.startswith(incomplete)]


class FrameworkOption(click.Option):
    """An option whose help lists the installed frameworks."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help."""
        self.help = f"One of {', '.join(names())}; or a plug-in."
        return super().get_help_record(ctx)


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-n", "--instances", type=Count(1), help="Number of workers (tasks of the role `worker`).")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="NAME=N[,KEY=VALUE...]",
    help="A role and its settings: ps=1,memory=512m. May be repeated.",
)
@click.option(
    "--framework",
    cls=FrameworkOption,
    type=FrameworkParameter(),
    metavar="NAME",
)
@click.option("--memory", metavar="SIZE", help="Memory of each task: 512m, 2g.")
@click.option("--vcores", type=Count(1), help="CPU shares of each task.")
@click.option("--gpus", type=Count(0), help="GPUs of each task.")
@click.option(
    "--procs-per-task",
    "--nproc-per-node",
    type=Count(1),
    metavar="N",
    help="Processes per task, in one working directory; like torchrun's.",
)
@click.option("--name", help="Name of the job [default: name of the program].")
@click.option(
    "--source", help="Folder or archive for the tasks' working directory [default: current folder]; '' for none."
)
@click.option("--python", help="Venv or conda-pack archive, or an interpreter.")
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable of the tasks; without VALUE, that of your shell.",
)
@click.option("--file", "files", multiple=True, metavar="FILE", help="Additional file: path, path::name, path#archive.")
@setting_options
@submit_options
def command(
    words: tuple[str, ...],
    instances: int | None,
    roles: tuple[str, ...],
    framework: str | None,
    memory: str | None,
    vcores: int | None,
    gpus: int | None,
    procs_per_task: int | None,
    name: str | None,
    source: str | None,
    python: str | None,
    variables: tuple[str, ...],
    files: tuple[str, ...],
    scheduler: str | None,
    sets: tuple[str, ...],
    params: tuple[str, ...],
    detach: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run COMMAND as a job, without a job file, in the current folder.

    \b
    tony run -- python train.py                 one task
    tony run -n 4 -- python train.py            four workers, each in a folder of its own
    tony run --nproc-per-node 4 --framework pytorch -- python train.py    four ranks in one folder, like torchrun
    tony run -n 2 --role ps=1,memory=512m --framework tensorflow -- python train.py

    COMMAND is executed unchanged, without a shell; for a pipe or a variable write: bash -c '...'. Options of tony come
    first: all words after the first one of COMMAND are the program's. Exit codes and Ctrl-C as with `tony submit`.
    """
    all_of_each = {"memory": memory, "vcores": vcores, "gpus": gpus, "procs_per_task": procs_per_task}
    each = {key: value for key, value in all_of_each.items() if value is not None}
    overrides: dict[str, Any] = {
        "name": name,
        "command": list(words),
        "roles": _parse_roles(instances, roles, each) or {_SINGLE_ROLE: each},
        "source": source or None,
        "framework": framework,
        "python": python,
        "env": dict(map(parse_variable, variables)) or None,
        "files": list(files) or None,
        "scheduler": scheduler,
    }
    given = {key: value for key, value in overrides.items() if value is not None}
    assumed = {"name": _find_program_name(words)} | ({"source": "."} if source is None else {})
    options = _SettingOptions(instances=instances is not None, role_texts=roles)
    resolved = load(sets=sets, params=params, overrides=given, assumed=assumed, overrides_source=options.find)
    return submit_and_follow(resolved, detach=detach, dry_run=dry_run, as_json=as_json)


class _SettingOptions:
    """Maps settings to the options that set them.

    Args:
        instances: True if `-n` was given.
        role_texts: the values of `--role`.
    """

    def __init__(self, *, instances: bool, role_texts: tuple[str, ...]) -> None:
        self._instances = instances
        self._own = {
            ("roles", first.partition("=")[0].strip(), item.partition("=")[0].strip())
            for first, *rest in (text.split(",") for text in role_texts)
            for item in rest
        }

    def find(self, key: Key) -> str:
        """Return the option that set a setting."""
        if key[0] != "roles":
            return _OPTIONS.get(key[0], "command line")
        setting = key[2] if len(key) > 2 else ""
        if setting in _ROLE_OPTIONS and key not in self._own:
            return f"--{setting.replace('_', '-')}"
        return "-n" if self._instances and key == ("roles", _WORKER_ROLE, "instances") else "--role"


def _parse_roles(instances: int | None, texts: tuple[str, ...], each: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return role -> its settings, as in a job file; those of `--role` override the ones for all roles."""
    roles: dict[str, dict[str, Any]] = {}
    if instances is not None:
        roles[_WORKER_ROLE] = {"instances": instances, **each}
    for text in texts:
        first, *rest = text.split(",")
        role, number = parse_pair(first, "--role", _ROLE_FORM)
        if role in roles:
            raise click.BadParameter(f"role {role!r} is given twice", param_hint="--role")
        own = dict(parse_pair(item, "--role", _ROLE_FORM) for item in rest)
        roles[role] = {
            "instances": parse_flag_value(number),
            **each,
            **{key: parse_flag_value(value) for key, value in own.items()},
        }
    return roles


def _find_program_name(words: tuple[str, ...]) -> str:
    """Return the name of the program: `train` for `python -u train.py`, `bash` for `bash -c '...'`."""
    for word in words:
        name = PurePath(word).name
        if not _FILE.fullmatch(name):
            break
        if not word.startswith("-") and not name.startswith(_INTERPRETERS):
            return PurePath(word).stem
    return PurePath(words[0]).name[:_MAX_NAME_LENGTH] if words[0].isprintable() and words[0].strip() else _SINGLE_ROLE
