"""The maps of the larger rooms are complete: a stranger finds the module for a change in the room's own docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tony

PACKAGE = Path(tony.__file__).parent
#: Modules that can be overlooked at once, without a map.
FEW = 14


def _modules(room: Path) -> set[str]:
    return {path.stem for path in room.glob("*.py")} - {"__init__"}


ROOMS = [init.parent for init in sorted(PACKAGE.rglob("__init__.py")) if len(_modules(init.parent)) > FEW]


@pytest.mark.parametrize(
    "room", [room for room in ROOMS if room != PACKAGE], ids=lambda room: str(room.relative_to(PACKAGE))
)
def test_a_large_room_has_a_map_of_all_its_modules(room: Path) -> None:
    """Each is named in the docstring of `__init__.py`."""
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert set() == _modules(room) - set(re.findall(r"\w+", said))


def test_every_room_is_on_the_page_of_the_house() -> None:
    """And every single module beside them."""
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    house = page[page.index("src/tony/\n") :]
    rooms = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    single = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    assert set() == (rooms | single) - set(house[: house.index("\n```")].split())
