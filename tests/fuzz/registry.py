"""Every target by its name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz.target import Target
from tests.fuzz.targets import (
    archives,
    connections,
    files,
    histories,
    machine,
    measurements,
    peers,
    programs,
    records,
    screens,
    settings,
    wire,
)

_MODULES = (
    wire,
    records,
    files,
    settings,
    archives,
    machine,
    screens,
    peers,
    connections,
    programs,
    histories,
    measurements,
)

#: Name -> target.
TARGETS: Mapping[str, Target] = {target.name: target for module in _MODULES for target in module.TARGETS}
