"""Rules for leaving files out of a staged folder: `.tonyignore`, else `.gitignore`.

A `.tonyignore` at the folder's top is the only one that counts, in git's syntax. Without it every `.gitignore` in the
folder counts, as in git: the deepest first, the last matching line of a file decides, and nothing below a folder that
is left out can be included again. Ignore files above the folder are not read. A file that git tracks is kept whatever a
`.gitignore` says. `.git` is always left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

OWN_FILE = ".tonyignore"
GIT_FILE = ".gitignore"
_MAX_FILE_BYTES = 1 << 20
_MAX_LINE_CHARACTERS = 4096
#: Occurrences of `**` in a line: each multiplies the time for a path by the number of its folders.
_MAX_DOUBLE_STARS = 4
#: Characters of a line that a message shows.
_MAX_SHOWN_CHARACTERS = 80
#: pathspec's group for the slash after a folder's name.
_FOLDER_MARK = "ps_d"
_STAR = "[^/]*"
#: Tokens of a regular expression: an escaped character, a set of characters, or one character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
#: Tokens with a special meaning, and the slash, which no star matches.
_SPECIAL = frozenset(".^$*+?()|{}/")
_MANY = frozenset("*+?{")
_GIT_TIMEOUT_SECONDS = 60.0
#: Variables that would make git read another repository than the folder's own.
_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX")


class IgnoreFileError(ValueError):
    """An ignore file cannot be read, or contains an invalid pattern; the message names both."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One line; a leading `!` includes again what others leave out."""

    regex: re.Pattern[str]
    leaves_out: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns that apply in one folder.

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
        """Return the name of the files that contain the patterns."""
        return GIT_FILE if self.nested else OWN_FILE

    def enter(self, folder: Path, prefix: str) -> IgnoreRules:
        """Return the rules below `folder`, whose path inside the top is `prefix` (with a trailing slash).

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
        """Return True if the patterns leave out this path itself, or if `only_tracked` is set.

        Args:
            path: inside the top, parts joined by `/`.
        """
        if self.only_tracked:
            return True
        for prefix, patterns in reversed(self.levels):
            decision = _decide(patterns, path[len(prefix) :], is_folder)
            if decision is not None:
                return decision
        return False

    def tracks(self, path: str) -> bool:
        """Return True if git tracks a file, or a file in a folder."""
        return self.tracked is not None and path in self.tracked


def load_rules(top: Path, *, git: bool) -> IgnoreRules:
    """Return the rules that apply at the top of a folder.

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


def _decide(patterns: tuple[_Pattern, ...], path: str, is_folder: bool) -> bool | None:
    """Return the decision of the last line that matches this very path.

    A whole spec decides for paths in general: there `!models/` applies to everything below `models` too, and `data/**`
    to `data` itself. The walk comes from the top, where git decides for each folder separately.
    """
    for pattern in reversed(patterns):
        if _matches_itself(pattern.regex, path, is_folder):
            return pattern.leaves_out
    return None


def _matches_itself(regex: re.Pattern[str], path: str, is_folder: bool) -> bool:
    """Return True if a pattern matches the path itself, not a folder above it, whose slash it would mark."""
    found = regex.search(path)
    if found and not found.groupdict().get(_FOLDER_MARK):
        return True
    if not is_folder or _FOLDER_MARK not in regex.groupindex:
        return False
    return any(match.end(_FOLDER_MARK) == len(path) + 1 for match in regex.finditer(f"{path}/"))


def _read(file: Path) -> tuple[_Pattern, ...]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise IgnoreFileError(f"{file} cannot be read ({error.strerror}). Make it readable.") from error
    if len(data) > _MAX_FILE_BYTES:
        raise IgnoreFileError(
            f"{file} has more than {_MAX_FILE_BYTES} bytes. Use patterns for folders instead of single files."
        )
    lines = data.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n").split("\n")
    found: list[_Pattern] = []
    for number, line in enumerate(lines, start=1):
        try:
            found += _patterns(line.rstrip("\r"))
        except (ValueError, re.error, RecursionError):
            shown = line if len(line) <= _MAX_SHOWN_CHARACTERS else f"{line[:_MAX_SHOWN_CHARACTERS]}..."
            shown = shown if shown.isprintable() else ascii(shown)
            raise IgnoreFileError(
                f"{file}:{number}: `{shown}` is not a valid pattern. Correct or remove that line."
            ) from None
    return tuple(found)


def _patterns(line: str) -> Iterator[_Pattern]:
    """Yield the pattern of a line, if it has one.

    Raises:
        ValueError, re.error, RecursionError: it is invalid.
    """
    from pathspec import GitIgnoreSpec  # late: it slows down the start

    if len(line) > _MAX_LINE_CHARACTERS or line.count("**") > _MAX_DOUBLE_STARS:
        raise ValueError(line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # nested sets: `[[` in a user's pattern is harmless
        for pattern in GitIgnoreSpec.from_lines([line]).patterns:
            if pattern.regex is not None:
                made = pattern.regex.pattern
                better = simplify_regex(made)
                yield _Pattern(pattern.regex if better == made else re.compile(better), bool(pattern.include))


def simplify_regex(regex: str) -> str:
    """Return an equivalent of a regular expression made from a glob, whose time does not explode with its stars.

    What lies between two stars of one part is matched where it first occurs, once and for all. Sets match no slash, as
    in git: `[!a]` is part of a name.
    """
    tokens = [_exclude_slash(token) for token in _TOKEN.findall(regex)]
    made: list[str] = []
    at = 0
    while at < len(tokens):
        if not _is_star(tokens, at):
            made.append(tokens[at])
            at += 1
            continue
        while _is_star(tokens, at):  # adjacent stars in one part are one
            at += 2
        end = at
        while end < len(tokens) and _is_fixed(tokens, end):
            end += 1
        if end > at and _is_star(tokens, end):
            made.append(f"(?>[^/]*?{''.join(tokens[at:end])})")
        else:
            made += [_STAR, *tokens[at:end]]
        at = end
    return "".join(made)


def _is_star(tokens: list[str], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at] == "[^/]" and tokens[at + 1] == "*"


def _is_fixed(tokens: list[str], at: int) -> bool:
    """Return True if the token matches exactly one character."""
    many = at + 1 < len(tokens) and tokens[at + 1] in _MANY
    return tokens[at] not in _SPECIAL and not many


def _exclude_slash(token: str) -> str:
    return f"(?!/){token}" if token.startswith("[") and token != "[^/]" else token


class TrackedFiles:
    """The files below a folder that are in the index of its git repository. Runs git on the first lookup.

    Args:
        folder: the top of a repository, or a folder in it.
        prefix: path of that folder inside the folder that is staged, with a trailing slash; empty for the latter.

    Attributes:
        folder: as given.
        problem: why git failed; empty if it did not or was not needed.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self.problem = ""
        self.folder = folder
        self._prefix = prefix
        self._paths: frozenset[str] | None = None

    def __contains__(self, path: str) -> bool:
        """Return True for a tracked file, and for a folder that contains one."""
        if self._paths is None:
            self._paths = self._read_index()
        return path.removeprefix(self._prefix) in self._paths

    def _read_index(self) -> frozenset[str]:
        environment = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
        # A repository's own configuration may name a program to run as its file system monitor.
        command = ["git", "-c", "core.fsmonitor=false", "-C", os.fspath(self.folder), "ls-files", "-z", "--cached"]
        try:
            found = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_GIT_TIMEOUT_SECONDS,
                check=True,
            )
        except FileNotFoundError:
            self.problem = "git is not installed"
        except subprocess.TimeoutExpired:
            self.problem = f"`git ls-files` did not exit within {_GIT_TIMEOUT_SECONDS:g} s"
        except subprocess.CalledProcessError as error:
            lines = error.stderr.decode(errors="replace").strip().splitlines()
            self.problem = lines[0] if lines else f"`git ls-files` failed with exit code {error.returncode}"
        except OSError as error:
            self.problem = f"git cannot be run: {error.strerror}"
        else:
            return _with_folders(os.fsdecode(found.stdout).split("\0"))
        return frozenset()


def is_in_repository(folder: Path) -> bool:
    """Return True if the folder, or one above it, is the top of a git repository, worktree or submodule."""
    return any(os.path.lexists(each / ".git") for each in (folder, *folder.parents))


def _with_folders(paths: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return frozenset(found)
