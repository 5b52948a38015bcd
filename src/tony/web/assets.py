"""Style sheet, script and charts: read once, served from memory, under names that change with what is in them.

A browser keeps them for good, and asks for a new one as soon as there is one. Nothing comes from another server.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from typing import cast

from tony.dataclass import dataclass

#: The charts' code is carried by this package, in this folder; nothing of the package is imported.
_CHARTS = "metaflow-card-uplot"
_CHARTS_AT = "metaflow_extensions/card_uplot/plugins/cards/uplot/uplot"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_OWN = ("style.css", "page.js", "charts.js", "icon.svg")
_FOREIGN = {"uplot.js": "uPlot.iife.min.js", "uplot.css": "uPlot.min.css"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file.

    Attributes:
        name: under which it is served: `style.1f2e3d4c.css`.
        etag: of HTTP, with its quotes.
    """

    name: str
    content: bytes
    media_type: str
    etag: str


class Assets:
    """All of them. Names in the code are without the digest: `assets["style.css"]`."""

    def __init__(self) -> None:
        found = [_asset(name, (resources.files("tony.web") / "assets" / name).read_bytes()) for name in _OWN]
        folder = _charts()
        self.charts = folder is not None
        if folder is not None:
            found += [_asset(name, (folder / file).read_bytes()) for name, file in _FOREIGN.items()]
        self._by_plain = {_plain(asset.name): asset for asset in found}
        self._served = {asset.name: asset for asset in found}

    def __getitem__(self, name: str) -> Asset:
        return self._by_plain[name]

    def served(self, name: str) -> Asset | None:
        """By the name in an address."""
        return self._served.get(name)


@cache
def assets() -> Assets:
    """Read at the first call."""
    return Assets()


def _asset(name: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()
    stem, _, ending = name.rpartition(".")
    return Asset(
        name=f"{stem}.{digest[:10]}.{ending}", content=content, media_type=_TYPES[ending], etag=f'"{digest[:32]}"'
    )


def _plain(name: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"{stem.rpartition('.')[0]}.{ending}"


def _charts() -> Traversable | None:
    """Where the charts' code lies, perhaps in a zip; None if it is not installed: then pages show numbers alone."""
    try:
        found = metadata.distribution(_CHARTS).locate_file(_CHARTS_AT)
    except metadata.PackageNotFoundError:
        return None
    folder = cast(Traversable, found)
    return folder if all((folder / file).is_file() for file in _FOREIGN.values()) else None
