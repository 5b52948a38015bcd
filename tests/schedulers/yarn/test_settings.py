"""The settings of the YARN scheduler, and the table they are described in."""

import pytest

from tony.errors import Problem
from tony.schedulers.settings_schema import load_settings
from tony.schedulers.yarn.settings import SETTINGS, YarnSettings, read_settings

GIB = 1024**3
WRONG_PORTAL = "must be the URL of a portal, such as `https://portal.example.org/tony`"


def test_table_is_found_by_name() -> None:
    """Job validation and documentation find the settings by the scheduler's name; there is a field for each."""
    assert load_settings("yarn") == tuple(SETTINGS)
    assert {setting.name for setting in SETTINGS} == set(YarnSettings.__slots__)


def test_nothing_set() -> None:
    assert read_settings({}) == (YarnSettings(), [])


def test_all_set() -> None:
    """Sizes and durations may come as text or read already."""
    values: dict[str, object] = {
        "conf": "/etc/hadoop/conf",
        "queue": "research",
        "priority": 3,
        "tags": "nightly, gpu ,,",
        "application_type": "TRAINING",
        "node_label": "gpu",
        "staging": "/shared/ann",
        "python": "own",
        "am_memory": "1g",
        "am_vcores": 2,
        "am_node_label": "cpu",
        "lifetime": 7200.0,
        "log_include": ".*out",
        "log_exclude": ".*tmp",
        "view_acl": "ann,bob admins",
        "modify_acl": "ann",
        "portal": "https://portal.example.org/tony",
        "docker_image": "python:3.12",
        "docker_mounts": "/data:/data:ro",
    }
    expected = YarnSettings(
        conf="/etc/hadoop/conf",
        queue="research",
        priority=3,
        tags=("nightly", "gpu"),
        application_type="TRAINING",
        node_label="gpu",
        staging="/shared/ann",
        python="own",
        am_memory=GIB,
        am_vcores=2,
        am_node_label="cpu",
        lifetime=7200.0,
        log_include=".*out",
        log_exclude=".*tmp",
        view_acl="ann,bob admins",
        modify_acl="ann",
        portal="https://portal.example.org/tony",
        docker_image="python:3.12",
        docker_mounts="/data:/data:ro",
    )
    assert read_settings(values) == (expected, [])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("am_vcores", 0, "expected a whole number of at least 1."),
        ("am_memory", 1024, 'expected a size such as "4g".'),
        ("am_vcores", True, "expected a whole number of at least 1."),
        ("lifetime", 0, 'expected a duration such as "90s".'),
        ("queue", "", "expected text."),
        ("conf", "conf", "expected an absolute path."),
        ("portal", "portal:8080", WRONG_PORTAL),
        ("portal", "javascript://x/%0aalert(1)", WRONG_PORTAL),
        ("portal", "https://portal/?job=", WRONG_PORTAL),
    ],
)
def test_invalid_values_keep_the_default(name: str, value: object, message: str) -> None:
    """Each error has its key and what would be right."""
    assert read_settings({name: value}) == (
        YarnSettings(),
        [Problem(key=f"scheduler.yarn.{name}", value=str(value), message=message)],
    )


def test_unknown_setting() -> None:
    _, problems = read_settings({"colour": "red"})
    assert problems[0].message.startswith(
        "unknown setting of the yarn scheduler; its settings are conf, queue, priority, tags,"
    )
