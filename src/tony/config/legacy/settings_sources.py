"""Reads LinkedIn TonY settings from all their sources; each value keeps its source.

Weakest first: the defaults (`keys`), the settings file, `tony-site.xml` in TONY_CONF_DIR, `--conf`. A value that a file
declares `final` is not changed by a later file, but by `--conf`. For keys with several values
(`tony.containers.envs`...) each `--conf` appends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tony.config.legacy.flags import Flags
from tony.config.table.layers import quote
from tony.config.table.value_format import format_name
from tony.errors import Problem
from tony.hadoop.configuration import Configuration, ConfigurationError, Setting

#: Keys to which a stronger source appends.
APPENDED = ("tony.containers.envs", "tony.execution.envs", "tony.containers.resources")
SITE_FILE = "tony-site.xml"
#: Folder of the site file if TONY_CONF_DIR is not set.
SITE_FOLDER = "/export/apps/tony/conf"
#: The settings file if none is named.
DEFAULT_FILE = "tony.xml"


@dataclass(frozen=True, slots=True)
class LegacyAssignment:
    """The value of a key from one source.

    Attributes:
        whole: the text is a single value, even with commas.
    """

    text: str
    place: str
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyValue:
    """The value of a key.

    Attributes:
        text: trimmed, `${...}` replaced.
        place: where it was set, such as `tony.xml:12`; the strongest if several.
        parts: the value from each source, weakest first; several only for keys in `APPENDED`.
    """

    key: str
    text: str
    place: str
    parts: tuple[LegacyAssignment, ...]


class Settings:
    """All keys that were set, in the order of their sources; `--conf` last."""

    def __init__(self, values: Mapping[str, LegacyValue], file: str | None = None) -> None:
        """Create it; `file` is the settings file as the user named it, if there is one."""
        self._values = dict(values)
        self.file = file

    def __iter__(self) -> Iterator[LegacyValue]:
        return iter(self._values.values())

    def get(self, key: str) -> LegacyValue | None:
        """Return the value of a key; None if it was not set."""
        return self._values.get(key)


def read(flags: Flags, environ: Mapping[str, str], cwd: Path) -> tuple[Settings, list[Problem], bool]:
    """Read the files and `--conf`.

    Returns:
        The settings; the errors; and whether every file could be read.
    """
    found = settings_file(flags, environ, cwd)
    named = {} if found is None else {str(found[0]): found[1]}
    paths = [found[0]] if found else []
    site = Path(environ.get("TONY_CONF_DIR") or SITE_FOLDER, SITE_FILE)
    if is_there(site):
        paths.append(site)
    problems: list[Problem] = []
    try:
        files = Configuration.load(paths=paths)
    except ConfigurationError as error:
        return Settings({}, found and found[1]), [_build_unreadable_problem(error, named)], False
    raw = {key: setting for key in files if (setting := files.find_setting(key)) is not None}
    expanded = Configuration(raw, environ)
    values = {}
    for key in raw:
        try:
            text = expanded.get(key) or ""
        except ConfigurationError as error:
            problems.append(Problem(key=format_name(key), message=f"{error}", source=_place(raw[key], named)))
            continue
        place = _place(raw[key], named)
        values[key] = LegacyValue(key=key, text=text, place=place, parts=(LegacyAssignment(text, place),))
    problems += _add_conf(values, flags.conf)
    _add_flags(values, flags)
    return Settings(values, found and found[1]), problems, True


def settings_file(flags: Flags, environ: Mapping[str, str], cwd: Path) -> tuple[Path, str] | None:
    """Return the settings file and its name: the given one or `tony.xml`, in the folder or on the CLASSPATH."""
    if flags.conf_file is not None:
        path = os.path.expanduser(flags.conf_file.removeprefix("file://"))
        called = flags.conf_name or flags.conf_file
        if os.path.isabs(path) or is_there(cwd / path):
            return cwd / path, called
        return _on_class_path(path, environ, cwd) or (cwd / path, called)
    if is_there(cwd / DEFAULT_FILE):
        return cwd / DEFAULT_FILE, DEFAULT_FILE
    return _on_class_path(DEFAULT_FILE, environ, cwd)


def _on_class_path(file: str, environ: Mapping[str, str], cwd: Path) -> tuple[Path, str] | None:
    for entry in environ.get("CLASSPATH", "").split(":"):
        folder = cwd / entry.removesuffix("/*")
        if entry and is_there(folder / file):
            return folder / file, str(folder / file)
    return None


def is_there(path: Path) -> bool:
    """Return True if the path is a file or a link to one; False for an invalid path."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _place(setting: Setting, named: Mapping[str, str]) -> str:
    """Return `file:line` with the file as the user named it."""
    file, colon, line = setting.source.rpartition(":")
    return f"{_escape_unprintable(named.get(file, file))}{colon}{line}"


def _escape_unprintable(text: str) -> str:
    return text if text.isprintable() else quote(text)[1:-1]


def _build_unreadable_problem(error: ConfigurationError, named: Mapping[str, str]) -> Problem:
    message = str(error)
    for path, known in named.items():
        message = message.replace(path, known)
    return Problem(key="", message=_escape_unprintable(message))


def _add_conf(values: dict[str, LegacyValue], conf: Iterable[str]) -> list[Problem]:
    """Apply `--conf key=value`."""
    problems = []
    for text in conf:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            message = f"`{format_name(text)}`: write --conf key=value, such as --conf tony.worker.instances=2."
            problems.append(Problem(key="--conf", message=message))
            continue
        _add(values, key, LegacyAssignment(value.strip(), "--conf"), appended=key in APPENDED)
    return problems


def _add_flags(values: dict[str, LegacyValue], flags: Flags) -> None:
    """Apply the flags that set a key; they override everything else."""
    for flag, key, texts in (
        ("--shell_env", "tony.execution.envs", flags.shell_env),
        ("--container_env", "tony.containers.envs", flags.container_env),
    ):
        for text in texts:
            _add(values, key, LegacyAssignment(text.strip(), flag, whole=True), appended=True)
    if flags.sidecar_tensorboard_log_dir is not None:
        part = LegacyAssignment(flags.sidecar_tensorboard_log_dir, "--sidecar_tensorboard_log_dir")
        _add(values, "tony.application.tensorboard-log-dir", part, appended=False)


def _add(values: dict[str, LegacyValue], key: str, part: LegacyAssignment, *, appended: bool) -> None:
    below = values.get(key)
    parts = (*below.parts, part) if below and appended else (part,)
    text = ",".join(each.text for each in parts if each.text)
    values[key] = LegacyValue(key=key, text=text, place=part.place, parts=parts)
