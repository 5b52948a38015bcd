"""Style sheet, scripts and the chart library: read once, served from memory under names with a content digest.

Browsers may cache them forever: changed content has a new name. Nothing is loaded from another server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
        plain_name: `style.css`.
        name: under which it is served: `style.1f2e3d4c.css`.
        etag: of HTTP, including the quotes.
    """

    plain_name: str
    name: str
    content: bytes
    media_type: str
    etag: str


@cache
def load_assets() -> Mapping[str, Asset]:
    """Return the static files by their names without digest (`style.css`), read at the first call.

    Without `uplot.js` the chart library is not installed.
    """
    folder = resources.files("tony.web") / "assets"
    found = [_build_asset(name, (folder / name).read_bytes()) for name in _OWN_FILES]
    charts = _find_charts()
    if charts is not None:
        found += [_build_asset(name, (charts / file).read_bytes()) for name, file in _FOREIGN.items()]
    return {asset.plain_name: asset for asset in found}


def find_served(name: str) -> Asset | None:
    """Return the file with the name in a URL; None if there is none."""
    return next((asset for asset in load_assets().values() if asset.name == name), None)


def _build_asset(name: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()
    stem, _, ending = name.rpartition(".")
    return Asset(
        plain_name=name,
        name=f"{stem}.{digest[:10]}.{ending}",
        content=content,
        media_type=_TYPES[ending],
        etag=f'"{digest[:32]}"',
    )


def _find_charts() -> Traversable | None:
    """Return the folder of the chart library, perhaps in a zip file; None if not installed: pages show tables only."""
    try:
        found = metadata.distribution(_CHARTS_PACKAGE).locate_file(_CHARTS_FOLDER)
    except metadata.PackageNotFoundError:
        return None
    folder = cast(Traversable, found)
    return folder if all((folder / file).is_file() for file in _FOREIGN.values()) else None
