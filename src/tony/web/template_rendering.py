"""Render page templates. Every value is HTML-escaped, and control characters are shown as escape sequences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined
from starlette.responses import HTMLResponse

from tony import __version__, control_characters
from tony.jobs.directory.secret_patterns import HTML
from tony.jobs.failure_text import format_note
from tony.units import Unit
from tony.web import page_text
from tony.web.assets import load_assets
from tony.web.authorization import AuthMethod
from tony.web.request import PageRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column heading; `order` is `ascending` or `descending` if the table is sorted by it, else empty."""

    title: str
    href: str
    order: str
    is_number: bool = False


@cache
def _create_environment() -> Environment:
    folder = resources.files("tony.web") / "templates"
    sources = {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(".html")}
    environment = Environment(
        loader=DictLoader(sources),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escape_control_characters,
    )
    environment.filters |= {
        "anchor": page_text.build_anchor,
        "count": page_text.format_integer,
        "duration": page_text.format_seconds,
        "hours": page_text.format_hours,
        "instant": page_text.render_instant,
        "lines": page_text.escape_lines,
        "moment": page_text.render_moment,
        "name": page_text.render_name,
        "percent": page_text.format_percent,
        "plain": control_characters.escape,
        "plural": page_text.format_counted,
        "sentence": page_text.render_sentence,
        "size": page_text.format_bytes_or_nothing,
    }
    environment.globals |= {
        "NOTHING": page_text.NOTHING,
        "version": __version__,
        "format_note": format_note,
        "took": page_text.format_elapsed,
        "running_for": page_text.render_running,
        "measured": page_text.format_metric,
        "units": Unit,
    }
    return environment


def prepare() -> None:
    """Read and compile all templates, so that the first request does not wait for it."""
    load_assets()
    environment = _create_environment()
    for template in environment.list_templates():
        environment.get_template(template)


def _escape_control_characters(value: object) -> object:
    """Return a plain string with its control characters escaped; leave `Markup` and other types unchanged."""
    return page_text.escape_lines(value) if type(value) is str else value


def render(template: str, page_request: PageRequest, values: dict[str, object], status: int = 200) -> HTMLResponse:
    """Return the response for a page."""
    return HTMLResponse(_render_html(template, page_request, values), status_code=status)


def _render_html(template: str, page_request: PageRequest, values: dict[str, object]) -> str:
    found = load_assets()
    common = {
        "links": page_request.links,
        "page_version": page_request.version,
        "portal_user": page_request.portal_user,
        "only": page_request.context.only,
        "provider": page_request.context.provider,
        "asset": lambda name: page_request.links.to_asset(found[name].name),
        "has_charts": "uplot.js" in found,
        "logged_in": page_request.portal_user.how is AuthMethod.SESSION,
    }
    # Pages also show error messages, commands and the like of user programs, which may contain secrets.
    return HTML.mask_text(_create_environment().get_template(template).render({**common, **values}))
