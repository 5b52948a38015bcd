"""The command-line flags of LinkedIn TonY: one or two dashes, `-flag value` or `--flag=value`.

LinkedIn TonY stops at the first unknown argument and silently drops the rest. Here it is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tony.config.table import value_format
from tony.errors import ConfigError, Problem
from tony.name_suggestions import suggest_names

#: Source of an error in the flags.
SOURCE = "command line"
#: Folder that the archive of `python_venv` is unpacked to.
VENV = "venv"
#: Unknown flags for which the nearest one is suggested: that takes a millisecond each.
_MAX_SUGGESTIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The values of one command line's flags as given; `FLAGS` says what each means.

    Attributes:
        conf_file: the settings file; None to look for `tony.xml`.
        conf_name: its name in messages, if not its path.
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


@dataclass(frozen=True, slots=True)
class FlagRow:
    """One flag as documented.

    Attributes:
        name: without dashes; also the name of its field in `Flags`.
        argument: placeholder of its value; empty for a switch.
        repeated: may be repeated.
        meaning: one line.
    """

    name: str
    argument: str
    meaning: str
    repeated: bool = False


#: Every flag, in the order of the usage page.
FLAGS: tuple[FlagRow, ...] = (
    FlagRow("executes", "COMMAND", "What the tasks run; becomes tony.containers.command."),
    FlagRow("task_params", "TEXT", "Appended to the command."),
    FlagRow(
        "python_binary_path",
        "PATH",
        "Interpreter put in front of the command; with python_venv a relative path is inside venv/.",
    ),
    FlagRow("python_venv", "ARCHIVE", "Unpacked to venv/ in the working directory of each task."),
    FlagRow("src_dir", "PATH", "Folder or archive with the working directory of each task."),
    FlagRow(
        "hdfs_classpath",
        "LIST",
        "Files and folders in the cluster's file system for every container, separated by commas.",
    ),
    FlagRow("shell_env", "K=V", "Environment variable of the programs.", repeated=True),
    FlagRow("container_env", "K=V", "Environment variable of the containers.", repeated=True),
    FlagRow("conf", "KEY=VALUE", "A setting; overrides all files.", repeated=True),
    FlagRow("conf_file", "FILE", "The settings file [default: tony.xml, if it exists]."),
    FlagRow("sidecar_tensorboard_log_dir", "PATH", "Run a TensorBoard sidecar for this folder."),
    FlagRow("debug", "", "Keep temporary files of the submission."),
    FlagRow("help", "", "Show the flags."),
)
_BY_NAME = {row.name: row for row in FLAGS}


def parse(arguments: Iterable[str]) -> Flags:
    """Parse the arguments after the name of the command.

    Raises:
        ConfigError: all unknown arguments, flags without a value, and flags given twice.
    """
    found: dict[str, list[str]] = {}
    problems: list[Problem] = []
    words = deque(arguments)
    while words:
        word = words.popleft()
        name, value = _split_flag(word)
        row = _BY_NAME.get(name)
        if row is None:
            problems.append(_describe_unknown_flag(word, name, explain=len(problems) < _MAX_SUGGESTIONS))
            if name and value is None and words and not words[0].startswith("-"):
                words.popleft()  # surely the value of the unknown flag
            continue
        if row.argument and value is None:
            value = _take_value(words)
        error = _find_error(row, value, found)
        if error:
            problems.append(Problem(key=f"--{name}", message=error, source=SOURCE))
        else:
            found.setdefault(name, []).append(_unquote(value or ""))
    if problems:
        raise ConfigError(problems)
    return Flags(**{name: _field(_BY_NAME[name], values) for name, values in found.items()})


def _field(row: FlagRow, values: list[str]) -> Any:
    if not row.argument:
        return True
    return tuple(values) if row.repeated else values[0]


def _split_flag(word: str) -> tuple[str, str | None]:
    """Return the name without dashes (empty for an argument without any), and the value after `=`."""
    if not word.startswith("-"):
        return "", None
    name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
    return name, value if equals else None


def _take_value(words: deque[str]) -> str | None:
    """Return the next argument as a value, unless it is a flag itself."""
    if not words or (words[0].startswith("-") and _split_flag(words[0])[0] in _BY_NAME):
        return None
    return words.popleft()


def _find_error(row: FlagRow, value: str | None, found: dict[str, list[str]]) -> str | None:
    if row.argument and value is None:
        return f"it has no value. Write --{row.name} {row.argument}."
    if not row.argument and value is not None:
        return f"it takes no value. Write --{row.name} alone."
    if row.name in found and not row.repeated:
        return "it is given twice. Remove one of them."
    return None


def _describe_unknown_flag(word: str, name: str, *, explain: bool) -> Problem:
    shown = value_format.format_name(word)
    if not name:
        message = f"`{shown}` belongs to no flag. Quote values with spaces: --task_params '--epochs 3'."
        return Problem(key="", message=message, source=SOURCE)
    known = "known: " + ", ".join(f"--{row.name}" for row in FLAGS) + "."
    near = suggest_names(name, _BY_NAME) if explain else ""
    hint = near.replace("`", "`--", 1) if near else known
    return Problem(key=value_format.format_name(word.partition("=")[0]), message=f"unknown flag; {hint}", source=SOURCE)


def _unquote(value: str) -> str:
    """Remove quotes around the whole value that the shell has kept, as LinkedIn TonY's parser does."""
    if len(value) >= 2 and value[0] == value[-1] == '"' and '"' not in value[1:-1]:
        return value[1:-1]
    return value
