"""Templates, filled in. Every value is escaped, and whatever steers text is written out."""

from __future__ import annotations

from functools import cache
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined
from starlette.responses import HTMLResponse

from tony import __version__
from tony.web import page_text
from tony.web.assets import assets
from tony.web.principal import AuthMethod, User
from tony.web.request import PageRequest
from tony.web.secret_masking import HTML


@cache
def _environment() -> Environment:
    folder = resources.files("tony.web") / "templates"
    sources = {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(".html")}
    made = Environment(
        loader=DictLoader(sources),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    made.filters |= {
        "anchor": page_text.anchor,
        "count": page_text.count,
        "duration": page_text.duration,
        "hours": page_text.hours,
        "lines": page_text.lines,
        "moment": page_text.moment,
        "name": page_text.name,
        "percent": page_text.percent,
        "plain": page_text.plain,
        "plural": page_text.plural,
        "said": page_text.render_sentence,
        "size": page_text.size,
    }
    made.globals |= {
        "NOTHING": page_text.NOTHING,
        "version": __version__,
        "took": page_text.took,
        "measured": page_text.measured,
    }
    return made


def prepare() -> None:
    """Reads and translates every template now: whoever comes first need not wait for that."""
    assets()
    made = _environment()
    for template in made.list_templates():
        made.get_template(template)


def _finalized(value: object) -> object:
    """What is not marked as HTML is text on one line or several, in which nothing steers."""
    return page_text.lines(value) if type(value) is str else value


def render(template: str, asked: PageRequest, values: dict[str, object], status: int = 200) -> HTMLResponse:
    """A page."""
    return HTMLResponse(filled(template, asked, values), status_code=status)


def filled(template: str, asked: PageRequest, values: dict[str, object]) -> str:
    """Its HTML."""
    found = assets()
    ours = {
        "links": asked.links,
        "visitor": asked.visitor,
        "only": asked.only,
        "source": asked.source,
        "asset": lambda name: asked.links.asset(found[name].name),
        "has_charts": found.charts,
        "logged_in": isinstance(asked.visitor, User) and asked.visitor.how is AuthMethod.SESSION,
    }
    # Errors of programs, commands and the like are shown in pages, too.
    return HTML.text(_environment().get_template(template).render({**ours, **values}))
