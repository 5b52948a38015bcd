"""Loads a job from all its sources: one JobSpec, or all errors at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tony.config.checks.cross_checks import check, check_names
from tony.config.checks.notes import (
    Note,
    default_kind_notes,
    default_kind_source,
    find_idle_memory_growth,
    find_idle_waits,
    find_unused_parameters,
    summarize_notes,
)
from tony.config.checks.plug_in_checks import check_plugin_names, framework_errors, with_default_kinds
from tony.config.files.call_settings import SOURCE, from_call
from tony.config.files.file_reader import FileRejectedError, read_layer
from tony.config.files.overrides import from_environment, from_params, from_sets
from tony.config.files.site_file_paths import default_site_files
from tony.config.files.site_policy import Site, check_finals, check_limits, read_sites
from tony.config.spec_builder import build
from tony.config.table.converted_settings import read
from tony.config.table.layers import Branch, Layer, format_key, merge, quote
from tony.config.table.settings_table import Key
from tony.errors import ConfigError, Problem
from tony.model.job_spec import JobSpec

if TYPE_CHECKING:
    from tony.config.legacy.draft_job import DraftJob
    from tony.config.legacy.flags import Flags

#: Most errors that are reported.
_MAX_PROBLEMS = 1000
#: Longest key in an error.
_MAX_KEY_LENGTH = 300
#: First and last part of the settings for container images.
_IMAGE_SETTINGS = (("roles", "image"), ("scheduler", "docker_image"))
_LINE = re.compile(r":(\d+)(?::\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A valid job.

    Attributes:
        sources: dotted key -> where it was set (`job.toml:12`, `--set`, `env TONY_SET_...`, `argument`), for every
            value that is not a default.
        notes: remarks on the settings, such as settings of LinkedIn TonY without effect.
        job_file: its name as the user gave it; None if there is none.
        images: dotted key -> container image that the job itself sets; without those of site files.
        other_schedulers: name -> settings of each scheduler other than the job's.
    """

    spec: JobSpec
    sources: Mapping[str, str]
    notes: tuple[Note, ...] = ()
    job_file: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    other_schedulers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def notices(self) -> tuple[str, ...]:
        """The notes for `submit`: a few in full, many in one sentence."""
        return summarize_notes(self.notes, self.job_file)


def load(
    job_file: str | os.PathLike[str] | None = None,
    *,
    sets: Iterable[str] = (),
    params: Iterable[str] = (),
    overrides: Mapping[str, Any] | JobSpec | None = None,
    assumed: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    site_files: Iterable[Path] | None = None,
    overrides_source: str | Callable[[Key], str] = SOURCE,
    flags: Flags | None = None,
    is_staged: bool = False,
) -> Resolved:
    """Load a job from all its sources; later arguments are stronger.

    Args:
        job_file: TOML, YAML, or XML of LinkedIn TonY; None for a job without a file.
        sets: `key=value` texts of `--set`.
        params: `name=value` texts of `--param`.
        overrides: settings of a Python call: a mapping like a job file (nested, or with dotted keys) or a JobSpec.
        assumed: defaults of the caller; stronger than site files only.
        environ: for `TONY_SET_...`; that of the process by default.
        cwd: absolute base of relative paths outside files; the current folder by default.
        site_files: weakest first; `/etc/tony/tony.toml` and `~/.config/tony/tony.toml` by default.
        overrides_source: the source reported for `overrides` and `assumed`, or for each of their values.
        flags: flags of LinkedIn TonY, which also name the settings file; instead of `job_file`.
        is_staged: the job's files are staged already, so that they need not exist.

    Raises:
        ConfigError: all errors that were found, in the order of their sources.
    """
    environ = os.environ if environ is None else environ
    cwd = _find_current_folder() if cwd is None else cwd
    site_files = default_site_files(environ) if site_files is None else site_files
    stack = _read_files(job_file, flags, site_files, environ, cwd)
    stack.is_staged = is_staged
    if assumed is not None:
        stack.own.insert(0, from_call(assumed, cwd, overrides_source))
    known = stack.merge()
    param_layer, param_errors = from_params(params, cwd)
    for layer, errors in (
        from_environment(environ, known, cwd),
        from_sets(sets, cwd),
        (param_layer, param_errors),
    ):
        stack.own.append(layer)
        stack.problems += errors
    if overrides is not None:
        stack.own.append(from_call(overrides, cwd, overrides_source))
    return _resolve(stack, known, param_layer, cwd)


@dataclass(slots=True, kw_only=True)
class _LayerStack:
    """The layers of a job, and the errors of reading them.

    Attributes:
        below: defaults and site files, weakest first; own: of the job itself.
        complete: every file was read, so settings can be checked against each other.
        is_staged: see `load`.
    """

    sites: list[Site]
    problems: list[Problem]
    complete: bool
    job_file: str | os.PathLike[str] | None
    below: list[Layer] = field(default_factory=list)
    own: list[Layer] = field(default_factory=list)
    notes: tuple[Note, ...] = ()
    is_staged: bool = False

    def merge(self) -> Branch:
        """Return all layers as one."""
        return merge([*self.below, *self.own])


def _read_files(
    job_file: str | os.PathLike[str] | None,
    flags: Flags | None,
    site_files: Iterable[Path],
    environ: Mapping[str, str],
    cwd: Path,
) -> _LayerStack:
    sites, problems = read_sites(site_files)
    stack = _LayerStack(sites=sites, problems=problems, complete=not problems, job_file=job_file)
    if flags is not None or is_linkedin_xml(job_file):
        draft, read_all = _translate_legacy_job(flags, job_file, environ, cwd)
        defaults, given = draft.layers(cwd)
        stack.below.append(defaults)
        stack.own.append(given)
        stack.job_file = job_file or draft.settings.file
        stack.notes = tuple(draft.notes)
        stack.problems += draft.problems
        stack.complete = stack.complete and read_all
    elif job_file is not None:
        try:
            stack.own.append(_job_layer(job_file, cwd))
        except FileRejectedError as refused:
            stack.problems.append(refused.problem)
            stack.complete = False
    stack.below += [site.layer for site in sites]
    return stack


def _resolve(stack: _LayerStack, known: Branch, param_layer: Layer, cwd: Path) -> Resolved:
    """Build the job and check it.

    Args:
        known: the layers of files and of the caller.
        param_layer: the parameters of the command line.

    Raises:
        ConfigError: see `load`.
    """
    problems, own = stack.problems, stack.own
    values = read(stack.merge())
    values.is_staged = stack.is_staged
    values.origin = None if stack.job_file is None else _format_job_file(stack.job_file)
    known_framework = check_plugin_names(values)
    problems += check_finals(stack.sites, own)
    spec = build(values, _default_name(stack.job_file, cwd))
    sources = {format_key(key): found.layer.where(key) for key, found in values.found.items()}
    if known_framework and not values.broken:
        with_kinds = with_default_kinds(spec, values)
        for name, role in with_kinds.roles.items():
            if role.kind is not spec.roles[name].kind:
                sources[format_key(("roles", name, "kind"))] = default_kind_source(spec.framework)
        spec = with_kinds
    if stack.complete:
        check(spec, values)
        check_names(spec, values, known, param_layer.values.get("params", {}))
        problems += check_limits(spec, stack.sites, values.find_source(("roles",)))
    problems += values.problems
    if stack.complete and not values.broken and known_framework:  # adapters must not see defaults for invalid values
        problems += with_sources(framework_errors(spec), sources)
    if problems:
        raise ConfigError([_with_short_key(problem) for problem in _limit_problems(_sort_problems(problems))])
    notes = (
        *find_idle_waits(spec, values, own),
        *find_idle_memory_growth(spec, values, own),
        *default_kind_notes(spec, sources),
        *find_unused_parameters(spec, values),
    )
    return Resolved(
        spec=spec,
        sources=sources,
        notes=(*stack.notes, *notes),
        job_file=values.origin,
        images={
            format_key(key): str(found.value)
            for key, found in values.found.items()
            if len(key) == 3 and (key[0], key[2]) in _IMAGE_SETTINGS and found.value and found.layer in own
        },
        other_schedulers={
            key[1]: settings
            for key, settings in values.children.items()
            if len(key) == 2 and key[0] == "scheduler" and key[1] != spec.scheduler
        },
    )


def is_linkedin_xml(job_file: str | os.PathLike[str] | None) -> bool:
    """Return True if a job file is one of LinkedIn TonY: XML, by its name."""
    return job_file is not None and os.fsdecode(job_file).lower().endswith(".xml")


def with_sources(problems: Iterable[Problem], sources: Mapping[str, str]) -> list[Problem]:
    """Add the source of the value to problems that lack it."""
    return [
        replace(problem, source=sources[problem.key]) if not problem.source and problem.key in sources else problem
        for problem in problems
    ]


def _limit_problems(problems: list[Problem]) -> list[Problem]:
    """Return the first problems, and a count of the others."""
    more = len(problems) - _MAX_PROBLEMS
    return problems if more <= 0 else [*problems[:_MAX_PROBLEMS], Problem(key="", message=f"and {more} more errors.")]


def _with_short_key(problem: Problem) -> Problem:
    if len(problem.key) <= _MAX_KEY_LENGTH:
        return problem
    return replace(problem, key=f"{problem.key[: _MAX_KEY_LENGTH - 1]}…")


def _sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return each problem once; those of a file in the order of its lines."""
    files: dict[str, int] = {}

    def place(problem: Problem) -> tuple[int, int]:
        match = _LINE.search(problem.source or "")
        name = (problem.source or "")[: match.start()] if match else problem.source or ""
        return files.setdefault(name, len(files)), int(match[1]) if match else 0

    return sorted(dict.fromkeys(problems), key=place)


def _job_layer(job_file: str | os.PathLike[str], cwd: Path) -> Layer:
    path = _path_of(job_file, cwd)
    return read_layer(path, _format_job_file(job_file), path.parent)


def _translate_legacy_job(
    flags: Flags | None, job_file: str | os.PathLike[str] | None, environ: Mapping[str, str], cwd: Path
) -> tuple[DraftJob, bool]:
    from tony.config.legacy.flags import Flags  # late: few jobs use settings of LinkedIn TonY
    from tony.config.legacy.translate import translate

    flags = flags or Flags()
    if job_file is not None:
        flags = replace(flags, conf_file=os.fsdecode(job_file))
    return translate(flags, environ, cwd)


def _format_job_file(job_file: str | os.PathLike[str]) -> str:
    shown = os.fsdecode(job_file)
    return shown if shown.isprintable() else quote(shown)


def _path_of(job_file: str | os.PathLike[str], cwd: Path) -> Path:
    return cwd / os.path.expanduser(job_file)


def _find_current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        message = "the current folder has been removed. Change to another one."
        raise ConfigError([Problem(key="", message=message)]) from error


def _default_name(job_file: str | os.PathLike[str] | None, cwd: Path) -> str:
    """Return the default name of a job: that of its file, or of the folder if the file is called `job`."""
    if job_file is None:
        return JobSpec().name
    path = Path(os.path.normpath(_path_of(job_file, cwd)))
    name = path.parent.name if path.stem == "job" else path.stem
    return name[:200] if name.strip() and name.isprintable() else JobSpec().name
