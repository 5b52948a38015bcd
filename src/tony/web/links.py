"""Page URLs relative to the current page, so that they work under any prefix that a proxy adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Builds relative URLs.

    Attributes:
        root: path from the current page to `/`: `./`, `../../`.
        only: the only job served, whose page is `/` itself; empty if many are served.
    """

    root: str
    only: str = ""

    @classmethod
    def from_path(cls, path: str, only: str = "") -> Links:
        """Return the links for a page at `path`."""
        return cls(root="../" * (path.count("/") - 1) or "./", only=only)

    def to_jobs(self, query: Mapping[str, str] | None = None) -> str:
        """Return the URL of the job list."""
        return f"{self.root}{_encode_query(query)}"

    def to_job(self, job: str, part: str = "", query: Mapping[str, str] | None = None) -> str:
        """Return the URL of a job's page, or of one of its tabs: `tasks`, `events`."""
        base = self.root if job == self.only else f"{self.root}job/{quote(job, safe='')}"
        if not part:
            return f"{base}{_encode_query(query)}"
        return f"{base.removesuffix('/')}/{part}{_encode_query(query)}"

    def to_task(self, job: str, task: str) -> str:
        """Return the URL of a task's page."""
        return self.to_job(job, f"task/{_quote_task(task)}")

    def to_log(self, job: str, task: str, stream: str, query: Mapping[str, str] | None = None, part: str = "") -> str:
        """Return the URL of a task's log, or of an action on it: `more`, `follow`."""
        return self.to_job(job, f"log/{_quote_task(task)}/{stream}{part and f'/{part}'}", query)

    def to_page(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """Return the URL of any other page, by its path without the leading slash."""
        return f"{self.root}{path}{_encode_query(query)}"

    def to_asset(self, name: str) -> str:
        """Return the URL of a static file, by the name under which it is served."""
        return f"{self.root}assets/{name}"


def _quote_task(task: str) -> str:
    return quote(task, safe=":")


def _encode_query(query: Mapping[str, str] | None) -> str:
    """Encode a query without empty parameters: the ResourceManager's proxy fails on those."""
    words = {name: value for name, value in (query or {}).items() if value != ""}
    return f"?{urlencode(words)}" if words else ""
