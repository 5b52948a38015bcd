"""Addresses of pages, relative to the one that is shown: they hold under any prefix that a proxy puts before them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from tony.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Makes them.

    Attributes:
        root: from the page that is shown to `/`: `./`, `../../`.
        only: the job that is served alone, whose page is `/` itself; empty where there are many.
    """

    root: str
    only: str = ""

    @classmethod
    def of(cls, path: str, only: str = "") -> Links:
        """Those of a page at `path`."""
        return cls(root="../" * (path.count("/") - 1) or "./", only=only)

    def jobs(self, query: Mapping[str, str] | None = None) -> str:
        """The list of jobs."""
        return f"{self.root}{_query(query)}"

    def job(self, job: str, part: str = "", query: Mapping[str, str] | None = None) -> str:
        """A job's page, or a part of it: `tasks`, `events`."""
        base = self.root if job == self.only else f"{self.root}job/{quote(job, safe='')}"
        if not part:
            return f"{base}{_query(query)}"
        return f"{base.removesuffix('/')}/{part}{_query(query)}"

    def task(self, job: str, task: str, query: Mapping[str, str] | None = None) -> str:
        """A task's page."""
        return self.job(job, f"task/{_task(task)}", query)

    def log(self, job: str, task: str, stream: str, query: Mapping[str, str] | None = None, part: str = "") -> str:
        """A task's log, or a part of its page: `download`."""
        return self.job(job, f"log/{_task(task)}/{stream}{part and f'/{part}'}", query)

    def page(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """Any other page, by its path without the first slash."""
        return f"{self.root}{path}{_query(query)}"

    def asset(self, name: str) -> str:
        """A file of ours, by the name under which it is served."""
        return f"{self.root}assets/{name}"


def _task(task: str) -> str:
    return quote(task, safe=":")


def _query(query: Mapping[str, str] | None) -> str:
    """Every parameter with a value: the proxy of a ResourceManager breaks on others."""
    words = {name: value for name, value in (query or {}).items() if value != ""}
    return f"?{urlencode(words)}" if words else ""
