"""tony: run distributed machine-learning jobs on this machine, or on the scheduler you already have.

The public names below are loaded on first use, so that `import tony` stays cheap.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers know the name; importing `typing` takes half as long as starting Python
if TYPE_CHECKING:
    from typing import Any

# pip refuses an older Python; a PYTHONPATH shared by several versions does not.
if sys.version_info < (3, 11):  # noqa: UP036
    raise ImportError(f"tony needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tony.client.portal import Portal, PortalJob
    from tony.client.python_api import Job, attach, submit, submit_async
    from tony.errors import (
        ConfigError,
        InfraError,
        KilledError,
        PlatformError,
        ProgramError,
        TonyError,
        UnknownJobError,
        UserError,
    )
    from tony.model.job_report import JobReport, TaskReport
    from tony.model.job_spec import JobSpec, Notify, Resources, Role, TimeoutAfter, Timeouts
    from tony.model.job_summary import JobHead
    from tony.model.setting_choices import (
        AfterCondition,
        DistributedMode,
        FailurePolicy,
        OnTimeout,
        RoleKind,
        StopOn,
        TlsMode,
    )
    from tony.model.states import JobState, TaskState
    from tony.python_hooks.library.tony.reporting import checkpoint, progress

_MODULES = {
    "checkpoint": "tony.python_hooks.library.tony.reporting",
    "progress": "tony.python_hooks.library.tony.reporting",
    "Portal": "tony.client.portal",
    "PortalJob": "tony.client.portal",
    "Job": "tony.client.python_api",
    "attach": "tony.client.python_api",
    "submit": "tony.client.python_api",
    "submit_async": "tony.client.python_api",
    "ConfigError": "tony.errors",
    "InfraError": "tony.errors",
    "KilledError": "tony.errors",
    "PlatformError": "tony.errors",
    "ProgramError": "tony.errors",
    "TonyError": "tony.errors",
    "UnknownJobError": "tony.errors",
    "UserError": "tony.errors",
    "JobHead": "tony.model.job_summary",
    "JobSpec": "tony.model.job_spec",
    "Notify": "tony.model.job_spec",
    "Resources": "tony.model.job_spec",
    "Role": "tony.model.job_spec",
    "TimeoutAfter": "tony.model.job_spec",
    "Timeouts": "tony.model.job_spec",
    "JobReport": "tony.model.job_report",
    "TaskReport": "tony.model.job_report",
    "JobState": "tony.model.states",
    "TaskState": "tony.model.states",
    "AfterCondition": "tony.model.setting_choices",
    "DistributedMode": "tony.model.setting_choices",
    "FailurePolicy": "tony.model.setting_choices",
    "OnTimeout": "tony.model.setting_choices",
    "RoleKind": "tony.model.setting_choices",
    "StopOn": "tony.model.setting_choices",
    "TlsMode": "tony.model.setting_choices",
}

__all__ = [
    "AfterCondition",
    "ConfigError",
    "DistributedMode",
    "FailurePolicy",
    "InfraError",
    "Job",
    "JobHead",
    "JobReport",
    "JobSpec",
    "JobState",
    "KilledError",
    "Notify",
    "OnTimeout",
    "PlatformError",
    "Portal",
    "PortalJob",
    "ProgramError",
    "Resources",
    "Role",
    "RoleKind",
    "StopOn",
    "TaskReport",
    "TaskState",
    "TimeoutAfter",
    "Timeouts",
    "TlsMode",
    "TonyError",
    "UnknownJobError",
    "UserError",
    "__version__",
    "attach",
    "checkpoint",
    "progress",
    "submit",
    "submit_async",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tony' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
