"""Reads a settings file, TOML or YAML, into a layer. Invalid input of any kind gives a Problem, never a crash."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tony.config.table.layers import (
    Layer,
    Written,
    find_rule_place,
    format_key,
    name_rules,
    normalize_scheduler,
)
from tony.config.table.settings_table import Key, Kind
from tony.errors import Problem
from tony.name_suggestions import find_similar_file

#: Bytes; larger files are refused without reading them whole.
MAX_FILE = 1024**2
_YAML_SUFFIXES = (".yaml", ".yml")
_SUFFIXES = (".toml", *_YAML_SUFFIXES)
#: The time that tomllib takes for a key grows with the square of its parts.
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){200}""", re.ASCII)
#: What tomllib says of a string that is not closed.
_UNCLOSED = ("Illegal character '\\n'", "Unterminated string", 'Expected "\'"')
_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_.-]+)\s*\]\s*(?:#.*)?$")
_KEY_BEFORE = re.compile(r"([A-Za-z0-9_.-]+)\s*=\s*$")
#: What is written without quotes.
_BARE_FORMS = {
    Kind.INTEGER: "write a whole number, such as 2",
    Kind.NUMBER: "write a number, such as 1.5",
    Kind.TRUTH: "write true or false",
}
_TOML_PLACE = re.compile(r" \((?:at line (\d+), column (\d+)|at end of document)\)$")


class FileRejectedError(Exception):
    """A settings file cannot be used; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


def read_layer(path: Path, shown: str, folder: Path) -> Layer:
    """Read a settings file; its suffix says whether it is TOML or YAML.

    Args:
        shown: its name as the user gave it.
        folder: absolute base of relative paths in the file.

    Raises:
        FileRejectedError: it does not exist, is not readable, or is not valid.
    """
    suffix = path.suffix.lower()
    if suffix in _YAML_SUFFIXES:
        return _yaml_layer(read_text(path, shown), shown, folder)
    if suffix not in (".toml", ""):
        near = "" if path.exists() else find_similar_file(path, _SUFFIXES)
        kinds = "the name of a job file must end in .toml, .yaml, .yml, or .xml (LinkedIn TonY)"
        raise _build_rejected_error(shown, f"{kinds}; did you mean {near}?" if near else f"{kinds}.")
    return _toml_layer(read_text(path, shown), shown, folder)


def read_text(path: Path, shown: str) -> str:
    """Return the text of a settings file.

    Raises:
        FileRejectedError: it does not exist, is not readable, too large, or not UTF-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise IsADirectoryError
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise _build_rejected_error(shown, _explain_missing_file(path)) from None
    except (IsADirectoryError, NotADirectoryError) as error:
        raise _build_rejected_error(shown, _folder_instead(path, shown, error)) from None
    except OSError as error:
        raise _build_rejected_error(shown, f"it cannot be read: {error.strerror or error}.") from None
    except ValueError:  # a NUL in the name
        raise _build_rejected_error(shown, "this is not a file name.") from None
    if len(data) > MAX_FILE:
        raise _build_rejected_error(
            shown, f"it is larger than {MAX_FILE} bytes, so it is probably not a settings file."
        )
    return _decode(data, shown)


def _explain_missing_file(path: Path) -> str:
    near = find_similar_file(path, _SUFFIXES)
    return f"no such file in {path.parent.absolute()}" + (f"; did you mean {near}?" if near else ".")


def _folder_instead(path: Path, shown: str, error: OSError) -> str:
    if isinstance(error, NotADirectoryError):
        return "no such file: a part of its path is not a folder."
    inner = next((name for name in ("job.toml", "job.yaml", "job.yml") if (path / name).is_file()), None)
    return f"this is a folder. Did you mean {Path(shown) / inner}?" if inner else "this is a folder, not a file."


def _decode(data: bytes, shown: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _build_rejected_error(
            f"{shown}:{line}", f"this is not UTF-8 text: byte 0x{data[error.start]:02x}."
        ) from None


def _build_rejected_error(where: str, message: str) -> FileRejectedError:
    return FileRejectedError(Problem(key="", message=message, source=where))


# --- TOML -------------------------------------------------------------------------------------------------------------


def _toml_layer(text: str, shown: str, folder: Path) -> Layer:
    values, rules = name_rules(normalize_scheduler(_toml_values(text, shown)))
    places = _TomlPlaces(text, shown)
    return Layer(values=values, where=lambda key: places(find_rule_place(key, rules)), base=folder)


def _toml_values(text: str, shown: str) -> Mapping[str, Any]:
    import tomllib  # late: a job without a file needs none

    too_long = _LONG_KEY.search(text)
    if too_long:
        line = text.count("\n", 0, too_long.start()) + 1
        raise _build_rejected_error(f"{shown}:{line}", "a key has hundreds of parts; no setting has more than a few.")
    try:
        return tomllib.loads(text, parse_float=lambda written: Written(float(written), written, is_text=False))
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(text, shown, str(error)) from None
    except RecursionError:
        raise _build_rejected_error(shown, "lists or tables are nested too deeply.") from None
    except ValueError:  # int() refuses more than 4300 digits
        raise _build_rejected_error(shown, "a number in it has too many digits.") from None


def _toml_error(text: str, shown: str, message: str) -> FileRejectedError:
    from tony.config.files.toml_line_numbers import scan  # late: needed only for a message

    if message.startswith(("Cannot overwrite", "Cannot declare", "Cannot mutate", "Duplicate")):
        twice = scan(text).twice
        if twice:
            key, first, second = twice
            return _build_rejected_error(
                f"{shown}:{second}", f"`{format_key(key)}` is set twice; first in line {first}."
            )
    match = _TOML_PLACE.search(message)
    reason = message[: match.start()] if match else message
    if reason in _UNCLOSED:
        reason = "the string is not closed"
    if match and match[1]:
        place = f"{match[1]}:{match[2]}"
    else:
        lines = text.split("\n")
        place, reason = f"{len(lines)}:{len(lines[-1]) + 1}", f"{reason} (end of file)"
    if match and match[1] and reason.startswith("Invalid value"):
        reason = _describe_bare_word(text.split("\n")[: int(match[1])], int(match[2]) - 1) or reason
    return _build_rejected_error(f"{shown}:{place}", f"not valid TOML: {reason}.")


def _describe_bare_word(lines: Sequence[str], column: int) -> str:
    """Return what to write for a word without quotes in the last of some lines; empty if its key is not found."""
    from tony.config.table.schema_tree import find_setting  # late: needed only after an error

    written = _KEY_BEFORE.search(lines[-1][:column])
    if written is None:
        return ""
    tables = [match[1] for match in map(_TABLE.match, lines) if match]
    key = ".".join([*tables[-1:], written[1]])
    setting = find_setting(tuple(key.split(".")))
    what = _BARE_FORMS.get(setting.kind) if setting else None
    if what is None:  # the word may be a secret
        return f'{key}: text needs quotes, such as {written[1]} = "digits"'
    word = re.split(r"[\s,}#]", lines[-1][column:], maxsplit=1)[0]
    return f"{key} = {word}: {what}" if word else f"{key} has no value: {what}"


class _TomlPlaces:
    """Maps a key to its line; scans the text on first use."""

    def __init__(self, text: str, shown: str) -> None:
        self._text = text
        self._shown = shown
        self._lines: Any = None

    def __call__(self, key: Key) -> str:
        if self._lines is None:
            from tony.config.files.toml_line_numbers import scan  # late: needed only for a message

            self._lines = scan(self._text)
        return f"{self._shown}:{self._lines.find_line(key)}"


# --- YAML -------------------------------------------------------------------------------------------------------------


def _yaml_layer(text: str, shown: str, folder: Path) -> Layer:
    from tony.config.files.yaml_reader import YamlError, read_yaml  # late: PyYAML is optional

    try:
        written, lines = read_yaml(text)
    except YamlError as error:
        raise _build_rejected_error(f"{shown}:{error.line}:{error.column}", error.message) from None

    values, rules = name_rules(normalize_scheduler(written))

    def find_line(key: Key) -> str:
        key = find_rule_place(key, rules)
        while key and key not in lines:
            key = key[:-1]
        return f"{shown}:{lines.get(key, 1)}"

    return Layer(values=values, where=find_line, base=folder)
