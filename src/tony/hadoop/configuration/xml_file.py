"""Read a `*-site.xml` as Hadoop's own parser does.

The less obvious rules (`org.apache.hadoop.conf.Configuration`, inner class `Parser`):

- elements are matched by their local names at any depth; `<property>` may have attributes in place of children;
- names are trimmed, values are not; an empty `<value/>` sets nothing; `<final>` is true for the exact text `true`;
- `<xi:include href="...">` is replaced by the properties of the other file, which is searched in the configuration
  folder first, then next to the including file; `<xi:fallback>` counts only if the file does not exist.

The files are untrusted input: entities are refused (no entity expansion, no external files or URLs), includes must be
files, and size, depth and counts are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from tony.control_characters import escape_line
from tony.errors import UserError

#: Bytes of one file. Generated site files of big clusters have some 300 KB.
MAX_BYTES = 8 << 20
#: Files that one load may read, included ones among them.
MAX_FILES = 100
#: Files in files.
MAX_INCLUDES = 16
#: Elements in elements. A property in a fallback in an include has depth 5.
MAX_DEPTH = 50
#: Properties in one load, over all files.
MAX_PROPERTIES = 100_000

_TEXTS = frozenset(("name", "value", "final"))


class ConfigurationError(UserError):
    """A file of Hadoop's configuration that cannot be read, or a value in it that means nothing.

    Attributes:
        key: the key with the value, or empty if it is the file.
        source: `file:line`, or what else the value comes from.
    """

    def __init__(self, message: str, *, key: str = "", source: str = "") -> None:
        self.key = key
        self.source = source
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One `<property>`.

    Attributes:
        name: the key as written.
        value: as written, neither trimmed nor expanded; None if there is none.
        final: whether later files may not change it.
        file: path of the file that contains it, which may be an included one.
        line: counted from 1.
    """

    name: str
    value: str | None
    final: bool
    file: str
    line: int


class SiteXmlReader:
    """Reads the files of one configuration; counts what it reads.

    Args:
        folder: of the configuration, where included files are searched first; or None.
        can_include: whether other files may be included.
    """

    def __init__(self, folder: Path | None = None, *, can_include: bool = True) -> None:
        self._folder = folder
        self._can_include = can_include
        self._file_count = 0
        self._property_count = 0

    def read(self, path: Path, above: tuple[Path, ...] = ()) -> list[Property]:
        """Return the properties of a file and of those that it includes, in order.

        Args:
            above: the files that include it.

        Raises:
            ConfigurationError: the file cannot be read, is no XML, or is refused; with its line.
        """
        self._file_count += 1
        if self._file_count > MAX_FILES:
            raise ConfigurationError(f"{path}: more than {MAX_FILES} files; does one include itself?")
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise ConfigurationError(f"{path}: cannot be read: {why}", source=str(path)) from error
        return self.parse(content, path, above)

    def parse(self, content: bytes, path: Path, above: tuple[Path, ...] = ()) -> list[Property]:
        """Return the properties of a file whose bytes are at hand; see `read`."""
        if len(content) > MAX_BYTES:
            raise ConfigurationError(f"{path}: larger than {MAX_BYTES >> 20} MiB", source=str(path))
        return _ConfigurationFile(self, path, content, (*above, path)).read()

    def read_included(self, href: str, above: tuple[Path, ...]) -> list[Property] | None:
        """Return the properties of an included file, or None if there is no such file.

        Raises:
            ValueError: it is refused; says why.
        """
        if not self._can_include:
            raise ValueError(f"{escape_line(href)!r} is included; of a file that is not our own nothing else is read.")
        if len(above) > MAX_INCLUDES:
            raise ValueError(f"more than {MAX_INCLUDES} files include one another.")
        path = self._find_file(href, above[-1].parent)
        if path is None:
            return None
        if path in above:
            raise ValueError(f"{path} includes itself.")
        return self.read(path, above)

    def _find_file(self, href: str, including_folder: Path) -> Path | None:
        scheme, colon, rest = href.partition(":")
        if colon and scheme.isalpha():
            if scheme != "file":
                raise ValueError(f"{escape_line(href)!r} is included; only files can be. Copy it into a file.")
            href = "/" + rest.lstrip("/")
        if "\0" in href:
            raise ValueError("an included path with a NUL character.")
        for folder in (self._folder, including_folder):
            if folder is not None and (folder / href).is_file():
                return folder / href
        return None

    def count_property(self, where: str) -> None:
        """Take note of one more property."""
        self._property_count += 1
        if self._property_count > MAX_PROPERTIES:
            raise ConfigurationError(f"{where}: more than {MAX_PROPERTIES} properties", source=where)


def properties_of(content: bytes, name: str) -> list[Property]:
    """Return the properties of an untrusted file; includes are refused.

    Args:
        name: of the file, for messages.

    Raises:
        ConfigurationError: it is no XML, or is refused; with its line.
    """
    return SiteXmlReader(can_include=False).parse(content, Path(name))


class _ConfigurationFile:
    """The parse of one file: expat's events in, properties out."""

    def __init__(self, reader: SiteXmlReader, path: Path, content: bytes, above: tuple[Path, ...]) -> None:
        self._reader, self._path, self._content, self._above = reader, path, content, above
        self._parser = expat.ParserCreate()
        self._properties: list[Property] = []
        self._depth = 0
        self._line = 0
        self._text: list[str] | None = None
        self._name: str | None = None
        self._value: str | None = None
        self._final = False
        #: An include whose file does not exist: the fallback counts.
        self._missing: str | None = None
        self._in_fallback = False

    def read(self) -> list[Property]:
        parser = self._parser
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._on_characters
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._refuse_skipped
        try:
            parser.Parse(self._content, True)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, "not well-formed")
            raise self._build_error(f"not valid XML: {reason}", error.lineno) from None
        except (ValueError, LookupError) as error:  # an encoding that Python does not know; or raised for an include
            raise self._build_error(escape_line(str(error), 500)) from None
        return self._properties

    def _build_error(self, message: str, line: int | None = None) -> ConfigurationError:
        where = f"{self._path}:{line or self._parser.CurrentLineNumber}"
        return ConfigurationError(f"{where}: {message}", source=where)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._build_error(
            f"declares the entity {escape_line(name, 50)!r}. Entities are refused; write the text itself."
        )

    def _refuse_skipped(self, name: str, _: bool) -> None:
        raise self._build_error(f"uses the unknown entity {escape_line(name, 50)!r}. Write the character itself.")

    def _start(self, qualified: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._build_error(f"elements lie more than {MAX_DEPTH} deep")
        name = _strip_namespace(qualified)
        if self._depth == 1 and name != "configuration":
            raise self._build_error(
                f"starts with <{escape_line(name, 50)}>: a file of Hadoop's starts with <configuration>"
            )
        if name == "property":
            given = {_strip_namespace(key): value for key, value in attributes.items()}
            self._line = self._parser.CurrentLineNumber
            self._name, self._value = given.get("name"), given.get("value")
            self._final = given.get("final") == "true"
        elif name in _TEXTS or name in ("source", "tag"):
            self._text = []
        elif name == "include":
            self._include({_strip_namespace(key): value for key, value in attributes.items()}.get("href"))
        elif name == "fallback":
            self._in_fallback = True

    def _on_characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, qualified: str) -> None:
        self._depth -= 1
        name = _strip_namespace(qualified)
        text = "".join(self._text or ())
        if name == "name" and text:
            self._name = text.strip()
        elif name == "value" and text:
            self._value = text
        elif name == "final":
            self._final = text == "true"
        elif name == "property":
            self._add_property()
        elif name == "include":
            if self._missing is not None and not self._in_fallback:
                raise self._build_error(
                    f"includes {escape_line(self._missing)!r}, which does not exist, and has no fallback"
                )
            self._missing, self._in_fallback = None, False

    def _include(self, href: str | None) -> None:
        if href is None:
            return
        found = self._reader.read_included(href, self._above)
        if found is None:
            self._missing = href
        else:
            self._properties.extend(found)

    def _add_property(self) -> None:
        if self._name is None or (self._in_fallback and self._missing is None):
            return
        self._reader.count_property(f"{self._path}:{self._line}")
        self._properties.append(
            Property(name=self._name, value=self._value, final=self._final, file=str(self._path), line=self._line)
        )


def _strip_namespace(name: str) -> str:
    return name.rpartition(":")[2]
