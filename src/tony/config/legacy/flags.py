"""The flags of the original's command line: one or two dashes, `-flag value` or `--flag=value`.

The original stops at the first word that it does not know and drops the rest in silence. Here such a word is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from tony.config import value_format
from tony.config.suggest import suggest_names
from tony.dataclass import dataclass
from tony.errors import ConfigError, Problem

#: Where a mistake in the flags is.
SOURCE = "command line"
#: For so many unknown flags the nearest one is looked for: that takes a millisecond each.
_EXPLAINED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What one command line of the original says. Texts are as they were given.

    Attributes:
        executes: the program to run, or a whole command line.
        task_params: put behind it.
        python_binary_path: the interpreter put in front of it.
        python_venv: archive that is unpacked to `venv/` in each container.
        src_dir: folder or archive that becomes each task's working directory.
        hdfs_classpath: files and folders of the cluster's file system for all containers, divided by commas.
        shell_env: `k=v`, variables of the programs.
        container_env: `k=v`, variables of the containers.
        conf: `key=value`, settings that win over all files.
        conf_file: the settings file; None to look for `tony.xml`.
        conf_name: what it is called in messages, if that is not its path.
        sidecar_tensorboard_log_dir: has a TensorBoard run beside the job.
        debug: keep what is only made for the submission.
        help: only the usage was asked for.
    """

    executes: str | None = None
    task_params: str | None = None
    python_binary_path: str | None = None
    python_venv: str | None = None
    src_dir: str | None = None
    hdfs_classpath: str | None = None
    shell_env: tuple[str, ...] = ()
    container_env: tuple[str, ...] = ()
    conf: tuple[str, ...] = ()
    conf_file: str | None = None
    conf_name: str | None = None
    sidecar_tensorboard_log_dir: str | None = None
    debug: bool = False
    help: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """One flag as it is explained.

    Attributes:
        name: without dashes; also the name of its field in `Flags`.
        argument: what stands behind it; empty for a switch.
        repeated: may be given several times.
        meaning: one line for people.
    """

    name: str
    argument: str
    meaning: str
    repeated: bool = False


#: Every flag, in the order of the usage page.
FLAGS: tuple[FlagRow, ...] = (
    FlagRow(name="executes", argument="COMMAND", meaning="What the tasks run; becomes tony.containers.command."),
    FlagRow(name="task_params", argument="TEXT", meaning="Put behind the command."),
    FlagRow(
        name="python_binary_path",
        argument="PATH",
        meaning="Interpreter put in front of the command; with python_venv a relative one lies in venv/.",
    ),
    FlagRow(name="python_venv", argument="ARCHIVE", meaning="Unpacked to venv/ in the working directory of each task."),
    FlagRow(name="src_dir", argument="PATH", meaning="Folder or archive with the working directory of each task."),
    FlagRow(
        name="hdfs_classpath",
        argument="LIST",
        meaning="Files and folders in the cluster's file system that every container gets, divided by commas.",
    ),
    FlagRow(name="shell_env", argument="K=V", repeated=True, meaning="A variable of the programs."),
    FlagRow(name="container_env", argument="K=V", repeated=True, meaning="A variable of the containers."),
    FlagRow(name="conf", argument="KEY=VALUE", repeated=True, meaning="A setting; wins over all files."),
    FlagRow(name="conf_file", argument="FILE", meaning="The settings file; without it tony.xml, if there is one."),
    FlagRow(
        name="sidecar_tensorboard_log_dir",
        argument="PATH",
        meaning="Has a TensorBoard for this folder run beside the job.",
    ),
    FlagRow(name="debug", argument="", meaning="Keep what is only made for the submission."),
    FlagRow(name="help", argument="", meaning="Show the flags."),
)
_BY_NAME = {row.name: row for row in FLAGS}


def parse(arguments: Iterable[str]) -> Flags:
    """Reads the words behind the command's name.

    Raises:
        ConfigError: with every word that is no flag, every flag without its value, and every one given twice.
    """
    found: dict[str, list[str]] = {}
    problems: list[Problem] = []
    words = deque(arguments)
    while words:
        word = words.popleft()
        name, value = _taken_apart(word)
        row = _BY_NAME.get(name)
        if row is None:
            problems.append(_unknown(word, name, explain=len(problems) < _EXPLAINED))
            if name and value is None and words and not words[0].startswith("-"):
                words.popleft()  # surely its value
            continue
        if row.argument and value is None:
            value = _next(words)
        mistake = _mistake(row, value, found)
        if mistake:
            problems.append(Problem(key=f"--{name}", message=mistake, source=SOURCE))
        else:
            found.setdefault(name, []).append(_unquoted(value or ""))
    if problems:
        raise ConfigError(problems)
    return Flags(**{name: _field(_BY_NAME[name], values) for name, values in found.items()})


def _field(row: FlagRow, values: list[str]) -> Any:
    if not row.argument:
        return True
    return tuple(values) if row.repeated else values[0]


def _taken_apart(word: str) -> tuple[str, str | None]:
    """The name without its dashes (empty for a word without any), and what stands behind a `=`."""
    if not word.startswith("-"):
        return "", None
    name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
    return name, value if equals else None


def _next(words: deque[str]) -> str | None:
    """A flag's value is the next word whatever it looks like, unless that is a flag itself."""
    if not words or (words[0].startswith("-") and _taken_apart(words[0])[0] in _BY_NAME):
        return None
    return words.popleft()


def _mistake(row: FlagRow, value: str | None, found: dict[str, list[str]]) -> str | None:
    if row.argument and value is None:
        return f"it has no value. Write --{row.name} {row.argument}."
    if not row.argument and value is not None:
        return f"it takes no value. Write --{row.name} alone."
    if row.name in found and not row.repeated:
        return "it is given twice, and only one can count. Remove the other."
    return None


def _unknown(word: str, name: str, *, explain: bool) -> Problem:
    shown = value_format.name(word)
    if not name:
        message = f"`{shown}` belongs to no flag. A value with blanks stands in quotes: --task_params '--epochs 3'."
        return Problem(key="", message=message, source=SOURCE)
    known = "known are " + ", ".join(f"--{row.name}" for row in FLAGS) + "."
    near = suggest_names(name, _BY_NAME) if explain else ""
    hint = near.replace("`", "`--", 1) if near else known
    return Problem(
        key=value_format.name(word.partition("=")[0]), message=f"there is no such flag; {hint}", source=SOURCE
    )


def _unquoted(value: str) -> str:
    """As the original's parser: quotes around the whole value, which no shell has removed, are none of it."""
    if len(value) >= 2 and value[0] == value[-1] == '"' and '"' not in value[1:-1]:
        return value[1:-1]
    return value
