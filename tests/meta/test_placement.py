"""Tests lie in the folder of what they test: `tests/linux/test_inotify.py` tests `src/tony/linux/inotify.py`."""

from __future__ import annotations

from pathlib import Path

import tony

PACKAGE = Path(tony.__file__).parent
TESTS = Path(__file__).parents[1]
#: Folders whose tests are of no package: whole jobs, a built wheel, documents, and the helpers of tests.
APART = {
    *("bench", "conformance", "dist", "e2e", "failure_modes", "fuzz", "kubernetes", "meta", "scenarios", "support"),
    *("tutorials", "yarn", "zoo"),
}
#: Test modules that are named after no module, because they test a property or several modules. It only falls.
MOST_WITHOUT_MODULE = 76


def _list_tested_modules() -> list[Path]:
    """List the modules that the tests of packages are named after, without suffix."""
    paths = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    return [PACKAGE / path.parent / path.stem.removeprefix("test_") for path in paths if path.parts[0] not in APART]


def test_folders_of_tests_are_folders_of_the_package() -> None:
    assert sorted({str(module.parent) for module in _list_tested_modules() if not module.parent.is_dir()}) == []


def test_most_tests_are_named_after_a_module() -> None:
    found = sorted(
        str(module.relative_to(PACKAGE))
        for module in _list_tested_modules()
        if not module.is_dir() and not module.with_suffix(".py").is_file()
    )
    assert len(found) <= MOST_WITHOUT_MODULE, "\n".join(found)
