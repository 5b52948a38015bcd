"""What is left out of a folder that is staged: `.tonyignore`, else `.gitignore`.

A `.tonyignore` at the folder's top is the only one that counts, in git's language. Without it every `.gitignore` in the
folder counts, as git reads them: the deepest first, the last matching line of a file decides, and nothing below a
folder that is left out can be taken back in. Files above the folder are not asked: the same folder gives the same
result wherever it lies. `.git` is left out always.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tony.dataclass import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

OWN_FILE = ".tonyignore"
GIT_FILE = ".gitignore"
#: pathspec's group for the slash after a folder's name.
_FOLDER_MARK = "ps_d"


class IgnoreFileError(ValueError):
    """A file of patterns that cannot be read, or holds one that means nothing; the text names both."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The patterns that hold in one folder.

    Attributes:
        levels: the folder that patterns are relative to (empty for the top, else with a trailing slash), and the
            patterns; deepest last.
        nested: look for more patterns in folders below.
    """

    levels: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    nested: bool = False

    def enter(self, folder: Path, prefix: str) -> Rules:
        """The rules below `folder`, whose path inside the top is `prefix` (with a trailing slash).

        Raises:
            IgnoreFileError: the folder's own patterns cannot be used.
        """
        if not self.nested or not os.path.isfile(file := folder / GIT_FILE):
            return self
        return Rules((*self.levels, (prefix, _read(file))), nested=True)

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether something is left out; the folders above it are not.

        Args:
            path: inside the top, parts joined by `/`.
        """
        if path == ".git" or path.endswith("/.git"):
            return True
        for prefix, spec in reversed(self.levels):
            verdict = _verdict(spec, path[len(prefix) :], is_folder)
            if verdict is not None:
                return verdict
        return False


def rules_for(top: Path, *, git: bool) -> Rules:
    """The rules that hold at the top of a folder.

    Args:
        git: `.gitignore` counts where there is no `.tonyignore`.

    Raises:
        IgnoreFileError: the patterns cannot be used.
    """
    own = top / OWN_FILE
    if os.path.isfile(own):
        return Rules((("", _read(own)),))
    return Rules(nested=git).enter(top, "")


def _verdict(spec: GitIgnoreSpec, path: str, is_folder: bool) -> bool | None:
    """What the last line says that means this very path.

    Asked as a whole, a spec answers for paths in general: there `!models/` speaks for everything below `models` too,
    and `data/**` for `data` itself. We come from the top, where git looks at each folder for itself.
    """
    for pattern in reversed(spec.patterns):
        if pattern.regex is not None and _means(pattern.regex, path, is_folder):
            return bool(pattern.include)
    return None


def _means(regex: re.Pattern[str], path: str, is_folder: bool) -> bool:
    """Whether a pattern is about the path itself and not about a folder above it, whose slash it would mark."""
    found = regex.search(path)
    if found and not found.groupdict().get(_FOLDER_MARK):
        return True
    if not is_folder or _FOLDER_MARK not in regex.groupindex:
        return False
    return any(match.end(_FOLDER_MARK) == len(path) + 1 for match in regex.finditer(f"{path}/"))


def _read(file: Path) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # only where there is such a file: start-up time

    try:
        text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise IgnoreFileError(f"{file} cannot be read ({error.strerror}). Make it readable.") from error
    lines = [line.rstrip("\r") for line in text.split("\n")]
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        number, line = next((n, line) for n, line in enumerate(lines, 1) if not _is_pattern(line))
        raise IgnoreFileError(f"{file}:{number}: `{line}` is no pattern. Mend or remove that line.") from None


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
