"""Hadoop's settings as one table: `*-site.xml` over Hadoop's own defaults; each value knows where it comes from.

The rules for values differ from those of tony's own settings: numbers usually have no unit, and `k` is 1024. The
functions that parse values raise ValueError with a sentence that names the expected form.

Source of the defaults of the keys read here, and of renamed keys: core-default.xml, hdfs-default.xml and
yarn-default.xml of Hadoop 3.4.2, and the deprecation tables of its classes Configuration and HdfsConfiguration.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tony.address import Address, parse_address
from tony.control_characters import escape_line
from tony.hadoop.configuration.xml_file import ConfigurationError, Property, SiteXmlReader

#: The files of a configuration folder, in the order in which they are read; a later one wins.
SITE_FILES: Final = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml", "mapred-site.xml")

Value = TypeVar("Value")
#: Replacements in one value (`Configuration.MAX_SUBST`).
MAX_EXPANSIONS = 20
#: Characters that a value may grow to: 20 replacements double a text of 8 characters to 8 MiB.
MAX_LENGTH = 1 << 20
_WHOLE = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})", re.ASCII)
_DECIMAL = re.compile(r"[-+]?[0-9]{1,19}", re.ASCII)
#: `Configuration.ParsedTimeDuration`, in seconds.
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: `StringUtils.TraditionalBinaryPrefix`.
_POWERS = "kmgtpe"
_LONG = 2**63
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")

_CORE: Final = {
    "fs.defaultFS": "file:///",
    "hadoop.rpc.protection": "authentication",
    "hadoop.security.authentication": "simple",
    "hadoop.security.token.service.use_ip": "true",
    "hadoop.tmp.dir": "/tmp/hadoop-${user.name}",
    "ipc.client.connect.timeout": "20000",
    "ipc.client.fallback-to-simple-auth-allowed": "false",
    "ipc.client.rpc-timeout.ms": "120000",
    "ipc.maximum.response.length": "134217728",
    "ipc.ping.interval": "60000",
}
_HDFS: Final = {
    "dfs.http.policy": "HTTP_ONLY",
    "dfs.namenode.delegation.token.always-use": "false",
    "dfs.namenode.http-address": "0.0.0.0:9870",
    "dfs.namenode.https-address": "0.0.0.0:9871",
}
_YARN: Final = {
    "yarn.acl.enable": "false",
    "yarn.am.liveness-monitor.expiry-interval-ms": "900000",
    "yarn.http.policy": "HTTP_ONLY",
    "yarn.log-aggregation-enable": "false",
    "yarn.log-aggregation.file-formats": "TFile",
    "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",
    "yarn.nodemanager.remote-app-log-dir-suffix": "logs",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "600000",
    "yarn.nodemanager.webapp.address": "${yarn.nodemanager.hostname}:8042",
    "yarn.nodemanager.hostname": "0.0.0.0",
    "yarn.resourcemanager.address": "${yarn.resourcemanager.hostname}:8032",
    "yarn.resourcemanager.connect.max-wait.ms": "900000",
    "yarn.resourcemanager.connect.retry-interval.ms": "30000",
    "yarn.resourcemanager.ha.enabled": "false",
    "yarn.resourcemanager.hostname": "0.0.0.0",
    "yarn.resourcemanager.scheduler.address": "${yarn.resourcemanager.hostname}:8030",
    "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8088",
    "yarn.resourcemanager.webapp.https.address": "${yarn.resourcemanager.hostname}:8090",
    "yarn.timeline-service.enabled": "false",
}

#: Key -> (Hadoop's default, unexpanded; the file in Hadoop's jars that sets it).
DEFAULTS: Final = {
    key: (value, file)
    for file, table in (("core-default.xml", _CORE), ("hdfs-default.xml", _HDFS), ("yarn-default.xml", _YARN))
    for key, value in table.items()
}

#: Old name -> what it is called now. A file that has the old name sets the new one.
RENAMED: Final = {
    "dfs.federation.nameservices": "dfs.nameservices",
    "dfs.http.address": "dfs.namenode.http-address",
    "dfs.https.address": "dfs.namenode.https-address",
    "fs.default.name": "fs.defaultFS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopSetting:
    """The value of a key.

    Attributes:
        text: as written: neither trimmed nor expanded.
        source: `file:line`, or in words where else it comes from.
        final: True if later files must not change it.
    """

    text: str
    source: str
    final: bool = False


class HadoopConfiguration:
    """Settings as Hadoop's clients would read them; immutable.

    Args:
        settings: by their present names.
        environ: for `${env.X}`.
        folder: the folder that it was read from, if it was one.
        files: the files that were read, without those that they include.
    """

    def __init__(
        self,
        settings: Mapping[str, HadoopSetting],
        environ: Mapping[str, str] | None = None,
        *,
        folder: Path | None = None,
        files: Iterable[Path] = (),
    ) -> None:
        self._settings = dict(settings)
        self._environ = dict(environ or {})
        self.folder = folder
        self.files = tuple(files)

    @classmethod
    def load(
        cls,
        folder: Path | str | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        paths: Iterable[Path | str] = (),
        given: Mapping[str, str] | None = None,
    ) -> HadoopConfiguration:
        """Read a folder's site files, or those of the folder that the environment names, or none.

        Args:
            folder: with `core-site.xml` and its like; None for HADOOP_CONF_DIR, YARN_CONF_DIR, or `etc/hadoop` in
                HADOOP_HOME, whichever is set first. Missing files are not an error.
            environ: the environment; None for an empty one.
            paths: more files, read after those of the folder.
            given: settings from elsewhere that win over all files, final or not.

        Raises:
            ConfigurationError: no such folder, or a file that cannot be used.
        """
        environ = environ or {}
        chosen = _find_folder(folder, environ)
        files = [chosen / name for name in SITE_FILES if (chosen / name).is_file()] if chosen else []
        files += [Path(path) for path in paths]
        reader = SiteXmlReader(chosen)
        settings: dict[str, HadoopSetting] = {}
        final: set[str] = set()
        for file in files:
            for each in reader.read(file):
                _put(settings, final, each)
        for key, value in (given or {}).items():
            settings[RENAMED.get(key, key)] = HadoopSetting(text=value, source="given", final=True)
        return cls(settings, environ, folder=chosen, files=files)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys that were set."""
        return iter(self._settings)

    def __contains__(self, key: object) -> bool:
        """Return True if the key was set, even to Hadoop's default."""
        return isinstance(key, str) and RENAMED.get(key, key) in self._settings

    def find_setting(self, key: str) -> HadoopSetting | None:
        """Return the setting of a key, else Hadoop's default."""
        key = RENAMED.get(key, key)
        found = self._settings.get(key)
        if found is None and key in DEFAULTS:
            text, file = DEFAULTS[key]
            found = HadoopSetting(text=text, source=f"Hadoop's default ({file}{self._explain_missing_file(file)})")
        return found

    def _explain_missing_file(self, file: str) -> str:
        """Note that the folder lacks the site file: perhaps it is the wrong folder."""
        site = file.replace("-default", "-site")
        if self.folder is None or any(each.name == site for each in self.files):
            return ""
        return f"; there is no {site} in {self.folder}"

    def find_source(self, key: str) -> str:
        """Return the source of the value: `file:line`, `given`, Hadoop's default, or `not set`."""
        found = self.find_setting(key)
        return found.source if found else "not set"

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the value, trimmed and expanded; None or the default if there is none.

        Raises:
            ConfigurationError: it cannot be expanded.
        """
        found = self.find_setting(key)
        if found is None:
            return default
        try:
            return expand_variables(found.text, self._find_raw, self._environ).strip()
        except ValueError as error:
            raise self.build_error(key, str(error)) from None

    def build_error(self, key: str, message: str) -> ConfigurationError:
        """Return the error for a value that means nothing: key, value, place, and the sentence given."""
        found = self.find_setting(key)
        where = self.find_source(key)
        shown = f"{key} = {escape_line(found.text, 100)}" if found else key
        return ConfigurationError(f"{shown} ({where}): {message}", key=key, source=where)

    def get_bool(self, key: str, default: bool = False) -> bool:
        """Return True or False; the default if it is neither, as in Hadoop."""
        text = self.get(key)
        found = parse_bool(text) if text is not None else None
        return default if found is None else found

    def get_size(self, key: str) -> int:
        """Return a number of bytes.

        Raises:
            ConfigurationError: it is none, or there is no value.
        """
        return self._parse_value(key, parse_size)

    def get_seconds(self, key: str, *, unit: str | None = None) -> float:
        """Return a time in seconds; raises like `get_size`.

        Args:
            unit: of a number without one (`ms`, `s`...); None if the key's name tells it.
        """
        return self._parse_value(key, lambda text: parse_seconds(text, unit or find_unit(key)))

    def get_list(self, key: str) -> tuple[str, ...]:
        """Return the parts between commas."""
        return parse_list(self.get(key) or "")

    def get_address(self, key: str, default_port: int) -> Address | None:
        """Return a `host:port`; None if there is no value.

        Args:
            default_port: where the value has none.

        Raises:
            ConfigurationError: it is no address.
        """
        if not self.get(key):
            return None
        return self._parse_value(key, lambda text: parse_address(_strip_scheme(text), default_port))

    def _parse_value(self, key: str, parse: Callable[[str], Value]) -> Value:
        text = self.get(key)
        if not text:
            raise self.build_error(key, "has no value, and needs one")
        try:
            return parse(text)
        except ValueError as error:
            raise self.build_error(key, str(error)) from None

    def _find_raw(self, name: str) -> str | None:
        """Return the value of `${name}`: Java's system properties come before keys."""
        java = _JAVA.get(name)
        if java is not None:
            return java()
        found = self.find_setting(name)
        return found.text if found else None


def _find_user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "?"  # as Java has it, for a user without a name


#: The system properties of Java that are met in real files.
_JAVA: Final[Mapping[str, Callable[[], str]]] = {
    "file.separator": lambda: "/",
    "java.io.tmpdir": lambda: "/tmp",
    "path.separator": lambda: ":",
    "user.dir": os.getcwd,
    "user.home": lambda: os.path.expanduser("~"),
    "user.name": _find_user_name,
}


def _put(settings: dict[str, HadoopSetting], final: set[str], new: Property) -> None:
    """Apply a property as Hadoop does: a final one stays, and one without a value is ignored."""
    key = RENAMED.get(new.name, new.name)
    if new.value is not None and key not in final:
        source = f"{new.file}:{new.line}" + (f", as {new.name}" if key != new.name else "")
        settings[key] = HadoopSetting(text=new.value, source=source, final=new.final)
    if new.final:
        final.add(key)


def _find_folder(folder: Path | str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the folder to read; None if none is named."""
    chosen, named = folder, "the folder of Hadoop's configuration"
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        if chosen is None and environ.get(name):
            chosen, named = environ[name], name
    home = environ.get("HADOOP_HOME")
    if chosen is None and home and (Path(home) / "etc/hadoop").is_dir():
        chosen = Path(home) / "etc/hadoop"
    if chosen is None:
        return None
    if not Path(chosen).is_dir():
        raise ConfigurationError(
            f"{named} = {escape_line(str(chosen))}: no such folder. "
            "Name the one that holds core-site.xml and yarn-site.xml.",
            source=named,
        )
    return Path(chosen)


def _strip_scheme(text: str) -> str:
    """Return the `host:port` of an address, which may be a URI, as Hadoop allows."""
    return text.partition("://")[2].partition("/")[0] if "://" in text else text


def expand_variables(text: str, lookup: Callable[[str], str | None], environ: Mapping[str, str]) -> str:
    """Return the value with everything in it replaced.

    Args:
        text: the value as written.
        lookup: the unexpanded value of a key (or of a Java system property), or None.
        environ: for `${env.X}`.

    Raises:
        ValueError: too many replacements.
    """
    value = text
    for _ in range(MAX_EXPANSIONS):
        match = _VARIABLE.search(value)
        if match is None:
            return value
        new = _find_variable(match[1], environ)
        if new is None:
            new = lookup(match[1])
        if new is None:
            return value
        if match[0] in new:
            return text
        value = value[: match.start()] + new + value[match.end() :]
        if len(value) > MAX_LENGTH:
            raise ValueError(f"it grows beyond {MAX_LENGTH} characters when its ${{...}} are replaced.")
    raise ValueError(f"it needs more than {MAX_EXPANSIONS} replacements of ${{...}}; Hadoop makes no more.")


def _find_variable(variable: str, environ: Mapping[str, str]) -> str | None:
    if not variable.startswith("env.") or len(variable) == 4:
        return None
    name = variable[4:]
    for at, char in enumerate(name):
        if name.startswith(":-", at):
            return environ.get(name[:at]) or name[at + 2 :]
        if char == "-":
            return environ.get(name[:at], name[at + 1 :])
    return environ.get(name)


def parse_bool(text: str) -> bool | None:
    """Return True or False; None for anything else, for which Hadoop uses the default."""
    return {"true": True, "false": False}.get(text.strip().lower())


def parse_int(text: str) -> int:
    """Return a whole number, decimal or hexadecimal."""
    cleaned = text.strip()
    if not _WHOLE.fullmatch(cleaned):
        raise ValueError("a whole number is wanted.")
    number = int(cleaned, 16 if "x" in cleaned.lower() else 10)
    if not -_LONG <= number < _LONG:
        raise ValueError("a number of at most 64 bits is wanted.")
    return number


def parse_seconds(text: str, unit: str) -> float:
    """Return a time: `30`, `30s`, `500ms`.

    Args:
        unit: of a number without one: `ms`, `s`, `m`...
    """
    cleaned = text.strip().lower()
    for suffix in _SECONDS:
        if cleaned.endswith(suffix):
            cleaned, unit = cleaned[: -len(suffix)], suffix
            break
    if not _DECIMAL.fullmatch(cleaned):
        raise ValueError("a time is wanted: a whole number, alone or with one of ns us ms s m h d.")
    return int(cleaned) * _SECONDS[unit]


def parse_size(text: str) -> int:
    """Return a number of bytes: `134217728`, `128m`."""
    cleaned = text.strip().lower()
    power = _POWERS.find(cleaned[-1]) + 1 if cleaned else 0
    digits = cleaned[:-1] if power else cleaned
    if not _DECIMAL.fullmatch(digits):
        raise ValueError("a size is wanted: a whole number, alone or with one of k m g t p e.")
    size = int(digits) << (10 * power)
    if not -_LONG <= size < _LONG:
        raise ValueError("a size of at most 64 bits is wanted.")
    return size


def parse_list(text: str) -> tuple[str, ...]:
    """Return the parts between commas or line ends, trimmed, without empty ones."""
    return tuple(part.strip() for part in re.split(r"[,\n]", text) if part.strip())


def find_unit(key: str) -> str:
    """Return the unit that a key's name tells: `...retry-interval.ms` has milliseconds; seconds if it tells none."""
    return "ms" if key.endswith((".ms", "-ms", ".millis", "-millis", "msec")) else "s"
