"""Files and modules that pages, comments, docstrings and messages name between backquotes exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import tony
from tony.config.legacy.keys import KEYS

ROOT = Path(__file__).parents[2]
SOURCES = Path(tony.__file__).parent
TESTS = ROOT / "tests"
PACKAGES = {path.name for path in SOURCES.iterdir() if path.is_dir()}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(TESTS.rglob("*.md"))]
CODE = [path for path in (*sorted(SOURCES.rglob("*.py")), *sorted(TESTS.rglob("*.py"))) if path != Path(__file__)]
#: Where a path may begin, besides the folder of the file that names it and the one above.
STARTS = (ROOT, SOURCES, TESTS, TESTS / "support")
#: Files of a job (`am.json`), settings of Hadoop and of LinkedIn TonY, and names in other projects look like modules.
NOT_MODULES = re.compile(r"hadoop\.|\w+\.(?:json|log|lock|xml|md)$|cli\.\w+Submitter|model\.fit")
LEGACY_KEYS = {key.name for key in KEYS}
#: Folders of users: of a job directory, of an upload.
NOT_PATHS = {"jobs/JOB/work", "src/train.py"}
#: All names of Python files: a file next to another one is named without its folder.
FILE_NAMES = {
    path.name for folder in ("src", "tests", "scripts", "bench", "examples") for path in (ROOT / folder).rglob("*")
}


@cache
def _quoted() -> list[tuple[Path, str]]:
    return [
        (path, text)
        for path in (*PAGES, *CODE)
        for text in dict.fromkeys(re.findall(r"`([^`\s]+)`", path.read_text(encoding="utf-8")))
    ]


def _is_path(text: str) -> bool:
    """Return True for `a/b.py`, `a/b` below a folder of the project, and `b.py`."""
    first, _, rest = text.partition("/")
    return bool(re.fullmatch(r"[\w./-]+\.py", text)) or bool(
        rest and re.fullmatch(r"[\w/]+", rest) and first in PACKAGES | {"tests", "bench", "scripts", "docs", "examples"}
    )


def _is_file(text: str, near: Path) -> bool:
    places = [start / text for start in (*STARTS, near.parent, near.parent.parent)]
    return text in FILE_NAMES or any(place.exists() or place.with_suffix(".py").exists() for place in places)


def _is_module(text: str) -> bool:
    """Return True if a module, or what one defines, has this name; `tony.` may be left out."""
    first, *rest = text.removeprefix("tony.").split(".")
    place = SOURCES / first
    while rest and (place / rest[0]).is_dir():
        place /= rest.pop(0)
    if not rest or (place / f"{rest[0]}.py").exists():
        return True
    return bool(re.search(rf"\b{rest[0]}\b", (place / "__init__.py").read_text(encoding="utf-8")))


def test_every_path_between_backquotes_exists() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {text}"
        for path, text in _quoted()
        if _is_path(text) and text not in NOT_PATHS and not _is_file(text, path)
    }
    assert sorted(missing) == []


def test_every_module_between_backquotes_exists() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {text}"
        for path, text in _quoted()
        if re.fullmatch(r"(?:tony\.)?\w+(?:\.\w+)+", text)
        and text not in LEGACY_KEYS
        and text.removeprefix("tony.").split(".")[0] in PACKAGES
        and not NOT_MODULES.match(text)
        and not _is_module(text)
    }
    assert sorted(missing) == []
