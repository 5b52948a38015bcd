"""The only page of a job where the web packages are not available, and the HTTP responses around it."""

from __future__ import annotations

import html
from datetime import UTC, datetime

from tony.model.job_report import JobReport
from tony.units import format_duration

#: Maximum number of tasks on the page.
_MAX_SHOWN_TASKS = 2000
_RELOAD_SECONDS = 5
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em;color:#222;background:#fff}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid #ddd}"
    "pre{background:#f4f4f4;padding:1em;overflow:auto}.failed,.lost{color:#b00}.succeeded{color:#070}"
)


def build_response(status: str, body: str, headers: str = "", *, with_body: bool = True) -> bytes:
    """Return an HTTP response.

    Args:
        body: a page of HTML, or a sentence to put on one.
        headers: more of them, each with its line end.
        with_body: False for the answer to HEAD.
    """
    if not body.startswith("<!doctype"):
        body = f"<!doctype html><title>{html.escape(status)}</title><p>{html.escape(body)}</p>"
    content = body.encode("utf-8", "backslashreplace")
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
        f"Connection: close\r\n{headers}\r\n"
    )
    return head.encode("latin-1", "replace") + (content if with_body else b"")


def render_fallback_page(report: JobReport, why: str = "") -> str:
    """Return the page as HTML; all values are escaped.

    Args:
        why: why there is only this page.
    """
    job = html.escape(report.job)
    title = html.escape(f"{report.name} ({report.job})")
    state = html.escape(report.state.value)
    reload = "" if report.state.ended else f'<meta http-equiv="refresh" content="{_RELOAD_SECONDS}">'
    rows = "".join(
        f"<tr><td>{html.escape(task.task)}</td><td class={task.state.value}>{html.escape(task.state.value)}</td>"
        f"<td>{html.escape(task.host or '')}</td><td>{task.try_ or ''}</td>"
        f"<td>{_exit(task.exit_code, task.signal)}</td><td>{html.escape(task.note)}</td></tr>"
        for task in report.tasks[:_MAX_SHOWN_TASKS]
    )
    more = len(report.tasks) - _MAX_SHOWN_TASKS
    rest = f"<p>... and {more} more tasks: tony status {job}</p>" if more > 0 else ""
    sentences = (report.waiting, report.stragglers, report.unfinished)
    waiting = "".join(f"<p>{html.escape(text)}</p>" for text in sentences if text)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{reload}<title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p><b class={state}>{state}</b>, session {report.session}, framework {html.escape(report.framework)}, "
        f"user {html.escape(report.user)}{_format_times(report)}</p>{waiting}{_format_failure(report)}"
        f"<table><tr><th>task<th>state<th>host<th>attempt<th>exit<th></tr>{rows}</table>{rest}"
        f"{_format_cli_hint(job, why)}</body></html>"
    )


def _format_cli_hint(job: str, why: str) -> str:
    if not why:
        return ""
    commands = ", ".join(f"<code>tony {each} {job}</code>" for each in ("status", "logs", "timeline", "kill"))
    return f"<p>Only this page is available. {html.escape(why)} In a terminal: {commands}.</p>"


def _exit(code: int | None, signal: str | None) -> str:
    return html.escape(signal or ("" if code is None else str(code)))


def _format_times(report: JobReport) -> str:
    if report.submitted is None:
        return ""
    since = datetime.fromtimestamp(report.submitted, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    took = "" if report.took is None else f", took {format_duration(report.took)}"
    return f", submitted {since}{took}"


def _format_failure(report: JobReport) -> str:
    if report.failure is None:
        return ""
    tail = "\n".join(report.failure.tail)
    return f"<p class=failed>{html.escape(report.failure.reason)}</p>" + (
        f"<pre>{html.escape(tail)}</pre>" if tail else ""
    )
