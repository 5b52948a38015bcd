"""Style sheet, scripts and the chart library: read once, served from memory under names with a content digest.

Browsers may cache them forever: changed content has a new name. Nothing is loaded from another server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from typing import cast

#: The package that contains uPlot, and the folder in it. Nothing of the package is imported.
_CHARTS_PACKAGE = "metaflow-card-uplot"
_CHARTS_FOLDER = "metaflow_extensions/card_uplot/plugins/cards/uplot/uplot"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_OWN_FILES = ("style.css", "page.js", "charts.js", "icon.svg")
_FOREIGN = {"uplot.js": "uPlot.iife.min.js", "uplot.css": "uPlot.min.css"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A static file.

    Attributes:
        name: under which it is served: `style.1f2e3d4c.css`.
        etag: of HTTP, including the quotes.
    """

    name: str
    content: bytes
    media_type: str
    etag: str


class Assets:
    """All static files. Code uses names without the digest: `assets["style.css"]`.

    Attributes:
        has_charts: the chart library is installed.
    """

    def __init__(self) -> None:
        found = [
            _build_asset(name, (resources.files("tony.web") / "assets" / name).read_bytes()) for name in _OWN_FILES
        ]
        folder = _find_charts()
        self.has_charts = folder is not None
        if folder is not None:
            found += [_build_asset(name, (folder / file).read_bytes()) for name, file in _FOREIGN.items()]
        self._by_plain = {_strip_fingerprint(asset.name): asset for asset in found}
        self._served = {asset.name: asset for asset in found}

    def __getitem__(self, name: str) -> Asset:
        return self._by_plain[name]

    def find_served(self, name: str) -> Asset | None:
        """Return the file with the name in a URL; None if there is none."""
        return self._served.get(name)


@cache
def load_assets() -> Assets:
    """Return the static files, read at the first call."""
    return Assets()


def _build_asset(name: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()
    stem, _, ending = name.rpartition(".")
    return Asset(
        name=f"{stem}.{digest[:10]}.{ending}", content=content, media_type=_TYPES[ending], etag=f'"{digest[:32]}"'
    )


def _strip_fingerprint(name: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"{stem.rpartition('.')[0]}.{ending}"


def _find_charts() -> Traversable | None:
    """Return the folder of the chart library, perhaps in a zip file; None if not installed: pages show tables only."""
    try:
        found = metadata.distribution(_CHARTS_PACKAGE).locate_file(_CHARTS_FOLDER)
    except metadata.PackageNotFoundError:
        return None
    folder = cast(Traversable, found)
    return folder if all((folder / file).is_file() for file in _FOREIGN.values()) else None
