"""Settings that are not in a file: `TONY_SET_...` variables, `--set key=value`, `--param name=value`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tony.config.files.call_settings import SOURCE as CALL_SOURCE
from tony.config.table.layers import Branch, Garbled, Layer, Written, put, quote
from tony.config.table.schema_tree import SettingsNode, schema
from tony.config.table.settings_table import Key
from tony.errors import Problem
from tony.name_suggestions import fold_name

#: Prefix of variables that are settings; other TONY_... variables have other purposes.
PREFIX = "TONY_SET_"

#: Longest name of a variable in a message.
_MAX_NAME_LENGTH = 100
#: First characters of quoted text, lists and tables.
_OPENING = ('"', "'", "[", "{")
#: The parser's position, which refers to the text with `value = ` in front.
_PLACE = re.compile(r" \(at (?:line \d+, column \d+|end of document)\)$")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)


def from_sets(sets: Iterable[str], base: Path) -> tuple[Layer, list[Problem]]:
    """Read `--set key=value`; later ones override earlier ones. `parse_flag_value` parses the values."""
    values: dict[str, Any] = {}
    problems = []
    for text in sets:
        name, equals, value = text.partition("=")
        key = _parse_dotted_key(name.strip())
        if not equals or not key:
            problems.append(_build_problem("--set", text, "write --set key=value, such as --set max_restarts=2."))
        else:
            put(values, key, parse_flag_value(value))
    return Layer(values=values, where=lambda key: "--set", base=base, has_full_keys=True), problems


def from_params(params: Iterable[str], base: Path) -> tuple[Layer, list[Problem]]:
    """Read `--param name=value`; the value is always text."""
    values: dict[str, Any] = {}
    problems = []
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            problems.append(_build_problem("--param", text, "write --param name=value, such as --param lr=0.1."))
        else:
            put(values, ("params", name.strip()), value)
    return Layer(values=values, where=lambda key: "--param", base=base), problems


def from_environment(environ: Mapping[str, str], known: Branch, base: Path) -> tuple[Layer, list[Problem]]:
    """Read `TONY_SET_...` variables: `__` stands for the dot; case and `-`/`_` do not matter.

    Names that the user chose are matched with those of weaker sources: `TONY_SET_ROLES__MY_ROLE__MEMORY` is the role
    `my-role` if it exists. The name after `ENV__` is used unchanged.

    Args:
        known: the settings of weaker sources.
    """
    values: dict[str, Any] = {}
    variables: dict[Key, str] = {}
    problems = []
    for variable, text in environ.items():
        if not variable.startswith(PREFIX):
            continue
        parts = variable.removeprefix(PREFIX).split("__")
        if not all(parts):
            example = "such as TONY_SET_MAX_RESTARTS=2 or TONY_SET_ROLES__WORKER__MEMORY=2g."
            problems.append(_build_problem(_place_of(variable), text, f"this is not a setting; write {example}"))
            continue
        key = _key_of(parts, known)
        put(values, key, parse_flag_value(text))
        variables[key] = _place_of(variable)
    return Layer(values=values, where=partial(_find_variable, variables), base=base, has_full_keys=True), problems


def _find_variable(variables: Mapping[Key, str], key: Key) -> str:
    """Return the first variable that set a key, a table around it, or a key inside it."""
    around = (source for own, source in variables.items() if own[: len(key)] == key[: len(own)])
    return next(around, "env")


def is_override(source: str) -> bool:
    """Return True if a source is an option, a `TONY_SET_...` variable or a Python call; False for files of any name."""
    return source == CALL_SOURCE or source.startswith(("--", f"env {PREFIX}", f'env "{PREFIX}'))


def parse_flag_value(text: str) -> Any:
    """Parse the text of a flag: a TOML value if it is valid, else text. Keeps the text as well.

    Text that begins like a TOML string, list or table, and is not valid, is `Garbled`.
    """
    import tomllib  # late: only values of --set and the like need it

    why = "it has more than one line"
    document: dict[str, Any] = {}
    try:
        document = tomllib.loads(f"value = {text}", parse_float=_float) if "\n" not in text and "\r" not in text else {}
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:
        why = _PLACE.sub("", str(error))
    if len(document) != 1:
        return Garbled(text, why) if text.lstrip().startswith(_OPENING) else text
    value = document["value"]
    return value if isinstance(value, str | dict | Written) else Written(value, text.strip())


def _float(text: str) -> Written:
    return Written(float(text), text)


def _parse_dotted_key(text: str) -> Key | None:
    if _PLAIN_KEY.fullmatch(text):
        return tuple(text.split("."))
    import tomllib  # late: only values of --set and the like need it

    try:
        table: Any = tomllib.loads(f"{text} = 0") if "\n" not in text else {}
    except (ValueError, RecursionError):
        return None
    key: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        name, table = next(iter(table.items()))
        key.append(name)
    return tuple(key) if table == 0 else None


def _key_of(parts: list[str], known: Branch) -> Key:
    node: SettingsNode | None = schema()
    branch: Branch | None = known
    key: list[str] = []
    for number, part in enumerate(parts):
        if node and node.any and node.word == "name":  # names of variables and parameters may contain `__`
            return (
                *key,
                _normalize_part("__".join(parts[number:]), node, branch, keep=key[-1] in ("env", "container_env")),
            )
        name = _normalize_part(part, node, branch, keep=False)
        key.append(name)
        node = node and node.child(name)
        child = branch.children.get(name) if branch else None
        branch = child if isinstance(child, Branch) else None
    return tuple(key)


def _normalize_part(part: str, node: SettingsNode | None, branch: Branch | None, *, keep: bool) -> str:
    """Return a part of a key as the table of settings or weaker sources spell it."""
    for names in (node.named if node else {}, branch.children if branch else {}):
        if part in names:
            return part
        alike = [name for name in names if fold_name(name) == fold_name(part)]
        if len(alike) == 1 and not keep:
            return alike[0]
    return part if keep or part != part.upper() else part.lower()


def _place_of(variable: str) -> str:
    is_short = variable.isprintable() and len(variable) <= _MAX_NAME_LENGTH
    return f"env {variable if is_short else quote(variable[:_MAX_NAME_LENGTH])}"


def _build_problem(source: str, text: str, message: str) -> Problem:
    value = text if len(text) <= 60 else f"{text[:59]}…"
    return Problem(key="", message=f"{quote(value)}: {message}", source=source)
