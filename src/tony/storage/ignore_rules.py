"""What is left out of a folder that is staged: `.tonyignore`, else `.gitignore`.

A `.tonyignore` at the folder's top is the only one that counts, in git's language. Without it every `.gitignore` in the
folder counts, as git reads them: the deepest first, the last matching line of a file decides, and nothing below a
folder that is left out can be taken back in. Ignore files above the folder are not read. A file that git tracks is
kept whatever a `.gitignore` says (`tracked_files.py`). `.git` is left out always.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from tony.dataclass import dataclass, replace
from tony.storage.glob_regex import quick
from tony.storage.tracked_files import TrackedFiles, is_in_repository

OWN_FILE = ".tonyignore"
GIT_FILE = ".gitignore"
#: Bytes of such a file, characters of a line of it, and times that `**` may stand in one: each multiplies the time that
#: a path takes by the number of its folders.
_LARGEST, _LONGEST_LINE, _MOST_DEPTHS = 1 << 20, 4096, 4
#: Characters of a line that a message shows.
_SHOWN = 80
#: pathspec's group for the slash after a folder's name.
_FOLDER_MARK = "ps_d"


class IgnoreFileError(ValueError):
    """A file of patterns that cannot be read, or holds one that means nothing; the text names both."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One line; `!` in front of it takes back in what others leave out."""

    regex: re.Pattern[str]
    leaves_out: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns that hold in one folder.

    Attributes:
        levels: the folder that patterns are relative to (empty for the top, else with a trailing slash), and the
            patterns, in the order of their lines; deepest last.
        nested: look for more patterns in folders below.
        tracked: the files that git tracks, which `.gitignore` does not leave out; None outside of repositories.
        only_tracked: everything else is left out, because the folder is ignored.
    """

    levels: tuple[tuple[str, tuple[_Pattern, ...]], ...] = ()
    nested: bool = False
    tracked: TrackedFiles | None = None
    only_tracked: bool = False

    @property
    def file_name(self) -> str:
        """Name of the files that the patterns come from."""
        return GIT_FILE if self.nested else OWN_FILE

    def enter(self, folder: Path, prefix: str) -> IgnoreRules:
        """The rules below `folder`, whose path inside the top is `prefix` (with a trailing slash).

        Raises:
            IgnoreFileError: the folder's own patterns cannot be used.
        """
        if not self.nested:
            return self
        found = self
        if prefix and os.path.lexists(folder / ".git"):  # a submodule, or a repository inside this one
            found = replace(found, tracked=TrackedFiles(folder, prefix))
        if os.path.isfile(file := folder / GIT_FILE):
            found = replace(found, levels=(*self.levels, (prefix, _read(file))))
        return found

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether the patterns leave something out; those of the folders above it do not, unless `only_tracked`.

        Args:
            path: inside the top, parts joined by `/`.
        """
        if self.only_tracked:
            return True
        for prefix, patterns in reversed(self.levels):
            verdict = _verdict(patterns, path[len(prefix) :], is_folder)
            if verdict is not None:
                return verdict
        return False

    def tracks(self, path: str) -> bool:
        """Whether git tracks a file, or a file in a folder."""
        return self.tracked is not None and path in self.tracked


def rules_for(top: Path, *, git: bool) -> IgnoreRules:
    """The rules that hold at the top of a folder.

    Args:
        git: `.gitignore` counts where there is no `.tonyignore`.

    Raises:
        IgnoreFileError: the patterns cannot be used.
    """
    own = top / OWN_FILE
    if os.path.isfile(own):
        return IgnoreRules((("", _read(own)),))
    tracked = TrackedFiles(top, "") if git and is_in_repository(top) else None
    return IgnoreRules(nested=git, tracked=tracked).enter(top, "")


def _verdict(patterns: tuple[_Pattern, ...], path: str, is_folder: bool) -> bool | None:
    """What the last line says that means this very path.

    Asked as a whole, a spec answers for paths in general: there `!models/` speaks for everything below `models` too,
    and `data/**` for `data` itself. We come from the top, where git looks at each folder for itself.
    """
    for pattern in reversed(patterns):
        if _means(pattern.regex, path, is_folder):
            return pattern.leaves_out
    return None


def _means(regex: re.Pattern[str], path: str, is_folder: bool) -> bool:
    """Whether a pattern is about the path itself and not about a folder above it, whose slash it would mark."""
    found = regex.search(path)
    if found and not found.groupdict().get(_FOLDER_MARK):
        return True
    if not is_folder or _FOLDER_MARK not in regex.groupindex:
        return False
    return any(match.end(_FOLDER_MARK) == len(path) + 1 for match in regex.finditer(f"{path}/"))


def _read(file: Path) -> tuple[_Pattern, ...]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST + 1)
    except OSError as error:
        raise IgnoreFileError(f"{file} cannot be read ({error.strerror}). Make it readable.") from error
    if len(data) > _LARGEST:
        raise IgnoreFileError(f"{file} has more than {_LARGEST} bytes. Name folders instead of single files in it.")
    lines = data.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n").split("\n")
    found: list[_Pattern] = []
    for number, line in enumerate(lines, start=1):
        try:
            found += _patterns(line.rstrip("\r"))
        except (ValueError, re.error, RecursionError):
            shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
            shown = shown if shown.isprintable() else ascii(shown)
            raise IgnoreFileError(f"{file}:{number}: `{shown}` is no pattern. Mend or remove that line.") from None
    return tuple(found)


def _patterns(line: str) -> Iterator[_Pattern]:
    """What a line says: nothing, or one pattern.

    Raises:
        ValueError, re.error, RecursionError: it is none.
    """
    from pathspec import GitIgnoreSpec  # only where there is such a file: start-up time

    if len(line) > _LONGEST_LINE or line.count("**") > _MOST_DEPTHS:
        raise ValueError(line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # sets in sets: `[[` is no mistake of ours
        for pattern in GitIgnoreSpec.from_lines([line]).patterns:
            if pattern.regex is not None:
                made = pattern.regex.pattern
                better = quick(made)
                yield _Pattern(pattern.regex if better == made else re.compile(better), bool(pattern.include))
