"""`tony advise JOB`."""

from __future__ import annotations

import asyncio
import difflib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tony.advice.engine import advise, load_heuristics
from tony.advice.facts_loader import load_facts
from tony.advice.heuristic import format_evidence, format_saving
from tony.advice.patch import apply, format_diff
from tony.advice.recommendation import Advice
from tony.cli.open_job import find_job, open_portal, portal_option
from tony.cli.options import job_argument, json_option
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.client.submission import check
from tony.control_characters import escape
from tony.errors import ExitCode, UserError
from tony.history.job_record import record_of
from tony.model.codec import from_plain, to_plain
from tony.model.state_directory import Home
from tony.units import format_count

if TYPE_CHECKING:
    from tony.advice.facts import Facts
    from tony.advice.patch import Applied
    from tony.advice.recommendation import SettingChange


@click.command("advise")
@job_argument
@click.option(
    "--apply",
    "job_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Write the changes into this job file; comments and order stay.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only recommendations of this name; may be repeated.")
@portal_option
@json_option("Print recommendations and changes as JSON.")
def command(job: str, job_file: Path | None, only: tuple[str, ...], portal: str | None, as_json: bool) -> int:
    """Recommend cheaper or safer settings for JOB, as a change to its job file.

    Reads up to ten past runs with the same name, user and roles. Metrics that were not recorded give no
    recommendations. The exit code is 0 with and without recommendations, and 2 if --apply is refused.
    """
    if portal is not None:
        return _advise_at_portal(portal, job, job_file, only, as_json)
    view = find_job(job)
    home, name = view.home, view.id
    facts = asyncio.run(load_facts(view))
    advice = _compute_advice(facts, only)
    for problem in advice.problems:
        warn(problem)
    if not as_json:
        _show(facts.run.name, advice)
    applied, refused = None, ""
    if job_file and advice.patch:
        try:
            applied = _apply(home, name, job_file, advice.patch)
        except UserError as error:
            if not as_json:
                raise
            refused = str(error)
    if as_json:
        print_json({**to_plain(advice), "applied": applied and _build_applied_json(applied), "refused": refused})
    elif applied:
        _show_applied(applied)
    return ExitCode.REFUSED if refused else ExitCode.SUCCEEDED


def _advise_at_portal(url: str, job: str, job_file: Path | None, only: tuple[str, ...], as_json: bool) -> int:
    if job_file or only:
        raise click.UsageError("--apply and --only work for jobs of this machine only; leave out --portal")
    with open_portal(url) as portal_client:
        name = portal_client.resolve(job)
        advice = from_plain(Advice, portal_client.fetch_advice(name), ignore_unknown=True)
        title = portal_client.fetch_report(name, tasks=False).name
    for problem in advice.problems:
        warn(problem)
    if as_json:
        print_json({**to_plain(advice), "applied": None, "refused": ""})
    else:
        _show(title, advice)
    return ExitCode.SUCCEEDED


def _compute_advice(facts: Facts, only: tuple[str, ...]) -> Advice:
    heuristics, problems = load_heuristics()
    names = {heuristic.name for heuristic in heuristics}
    unknown = [name for name in only if name not in names]
    if unknown:
        raise click.BadParameter(
            f"unknown recommendation {unknown[0]!r}; known: {', '.join(sorted(names))}", param_hint="--only"
        )
    chosen = [heuristic for heuristic in heuristics if not only or heuristic.name in only]
    found = advise(facts, chosen)
    return replace(found, problems=(*found.problems, *problems))


def _apply(home: Home, name: str, job_file: Path, changes: tuple[SettingChange, ...]) -> Applied:
    return apply(job_file, record_of(home, name), changes, lambda resolved: check(resolved, home))


def _build_applied_json(applied: Applied) -> dict[str, object]:
    return {
        "file": str(applied.path),
        "changed": applied.before != applied.after,
        "made": list(applied.made),
        "left": [{"key": str(change.key), "why": why} for change, why in applied.left],
    }


def _show(name: str, advice: Advice) -> None:
    others = len(advice.runs) - 1
    say(f"{advice.job}  {escape(name)}  compared with {format_count(others, 'earlier run')} of the same job")
    for recommendation in advice.findings:
        say()
        saving = format_saving(recommendation.saving)
        say(f"{recommendation.severity.value}: {recommendation.says}", bold=True)
        say_all(f"    {format_evidence(evidence)}" for evidence in recommendation.evidence)
        if saving:
            say(f"    would save per run: {saving}")
        if recommendation.hint:
            say(f"    {recommendation.hint}")
        say(f"    rule: {recommendation.heuristic}")
    say()
    if not advice.findings:
        say("No recommendations.")
    if advice.patch:
        say("Suggested changes to the job file:")
        say_all(f"    {line}" for line in format_diff(advice.patch))
    elif advice.findings:
        say("No change to the job file is suggested.")
    for change in advice.later:
        say(f"Later, after a run with these changes: {change.key} = {change.new}")
    if advice.unknown:
        say(f"Not checked: {' '.join(advice.unknown)}")


def _show_applied(applied: Applied) -> None:
    say()
    name = str(applied.path)
    if applied.before == applied.after:
        say(f"{name} is unchanged")
    else:
        before, after = (text.splitlines() for text in (applied.before, applied.after))
        say(f"Changed {name}:")
        say_all(difflib.unified_diff(before, after, name, name, lineterm="", n=2))
    for change, why in applied.left:
        warn(f"{change.key} was not changed: {why}")
