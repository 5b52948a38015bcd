"""What frameworks and schedulers, which are found by name, say about a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tony.config.elastic import refused
from tony.config.layers import quoted
from tony.config.nearest import did_you_mean, known_are
from tony.config.sheet import Sheet
from tony.errors import Problem
from tony.model.job import JobSpec
from tony.model.states import RestartScope

if TYPE_CHECKING:
    from tony.frameworks.base import Framework

# The two registries are above this package; they are asked when a job is checked, never at import.


def unknown_names(sheet: Sheet) -> bool:
    """Notes a framework or scheduler that nobody provides; answers whether the framework is known."""
    from tony.schedulers.registry import names as scheduler_names

    scheduler = sheet.value(("scheduler", "name"))
    if scheduler is not None and scheduler not in scheduler_names():
        sheet.blame(("scheduler", "name"), _nobody("scheduler", scheduler, scheduler_names()))
    framework = sheet.value(("framework",))
    if framework is None or _has_framework(framework):
        return True
    from tony.frameworks.registry import names

    sheet.blame(("framework",), _nobody("framework", framework, names()))
    return False


def framework_mistakes(spec: JobSpec) -> Sequence[Problem]:
    """What only the job's framework can see."""
    from tony.frameworks.registry import home_of, load

    home = home_of(spec.framework)
    try:
        adapter = load(home)
    except (ImportError, AttributeError, TypeError, SyntaxError, ValueError) as error:
        message = f"the plug-in {home} cannot be loaded: {type(error).__name__}: {error}"
        return [Problem(key="framework", value=quoted(spec.framework), message=message)]
    return [*adapter.validate(spec), *_scopes(spec, adapter), *refused(spec, adapter)]


def _scopes(spec: JobSpec, adapter: Framework) -> Iterator[Problem]:
    """Roles whose tasks cannot start again alone, although the job says so."""
    for name, role in spec.roles.items():
        why = adapter.lone_restart(spec, name) if role.restart is RestartScope.TASK else None
        if why:
            message = (
                f'with framework = "{spec.framework}", a task of {name} cannot start again alone: {why}. Write '
                'restart = "session", or leave it out: then the gang starts again together.'
            )
            yield Problem(key=f"roles.{name}.restart", value=quoted(role.restart.value), message=message)


def _has_framework(name: str) -> bool:
    from tony.frameworks.registry import home_of

    try:
        home_of(name)
    except LookupError:
        return False
    return True


def _nobody(what: str, name: str, known: Sequence[str]) -> str:
    return f"there is no such {what}; {did_you_mean(name, known, known_are(known))}"
