"""The overview in `docs/architecture.md` is complete."""

from __future__ import annotations

from pathlib import Path

import tony

PACKAGE = Path(tony.__file__).parent


def test_every_package_and_top_level_module_is_listed() -> None:
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    house = page[page.index("src/tony/\n") :]
    rooms = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    single = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    assert set() == (rooms | single) - set(house[: house.index("\n```")].split())
