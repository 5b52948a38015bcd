"""Documents that say what is missing, or list what there is, agree with the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path

import pytest

import tony
from tests.config.jobs import resolve
from tony.cli.main import COMMANDS
from tony.config.legacy.keys import KEYS, VARIABLES
from tony.config.table.settings_table import SETTINGS

ROOT = Path(__file__).parents[2]
SOURCES = Path(tony.__file__).parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
#: Words by which a document says that something is missing.
_MISSING = re.compile(
    r"\| not yet\b|\bnot (?:done|told|tested|measured|shown|supported) yet\b|\bnone yet\b|\*\*not done\*\*"
    r"|\bis not supported|\bare not measured|\bnothing is measured\b|not part of this product",
    re.IGNORECASE,
)


def _mentions(folder: str, text: str) -> bool:
    return any(text in path.read_text(encoding="utf-8") for path in (SOURCES / folder).rglob("*.py"))


#: What documents say is missing -> whether it is.
CLAIMS: Mapping[str, Callable[[], bool]] = {
    "YARN shows 0 % until the end": lambda: not _mentions("schedulers/yarn", ".progress = "),
    "Elastic Horovod is not supported": lambda: not _mentions("frameworks", "HOROVOD_ELASTIC"),
    "with a real Docker they are not tested yet": lambda: not list((ROOT / "tests").rglob("test_docker*.py")),
}


def test_features_that_a_page_calls_missing_are_missing() -> None:
    """Each such line is a claim of this test, with a check."""
    for line in (line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()):
        if _MISSING.search(line):
            claims = [claim for claim in CLAIMS if claim in line]
            assert claims, f"add to CLAIMS, or correct: {line}"
            assert all(CLAIMS[claim]() for claim in claims), line


def test_no_setting_of_linkedin_tony_lacks_effect_because_something_is_missing() -> None:
    """Those have none because of what there is; `convert` and `validate` print the reason."""
    reasons = [
        *(key.obsolete for key in KEYS if key.obsolete),
        *(each.obsolete for each in VARIABLES if each.obsolete),
    ]
    assert [reason for reason in reasons if _MISSING.search(reason)] == []
    commands = {word for reason in reasons for word in re.findall(r"`tony ([a-z-]+)", reason)}
    assert commands <= set(COMMANDS)


@pytest.mark.parametrize("kind", [tony.RoleKind, tony.AfterCondition])
def test_choices_of_the_python_api_are_all_listed(kind: type[Enum]) -> None:
    """The row of a noun names every member."""
    page = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{kind.__name__}` \|.*$", page, re.MULTILINE)
    assert set(re.findall(r"\b[A-Z]{4,}\b", row)) == set(kind.__members__)


COMING_FROM = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
#: The columns of its tables that say what is written here.
_HERE = [
    part for row in re.findall(r"^\|.*\| (.*) \|$", COMING_FROM, re.MULTILINE) for part in re.findall(r"`([^`]+)`", row)
]


def test_settings_named_for_migration_exist(tmp_path: Path) -> None:
    """Each `key = value`, and all of them together load, on the role or on the job."""
    known = {setting.path[-1] for setting in SETTINGS} | {setting.path[0] for setting in SETTINGS}
    lines = [part for part in _HERE if re.match(r"[a-z_]+ = ", part)]
    assert len(lines) > 8
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").touch()
    for line in lines:
        key = line.partition(" =")[0]
        assert key in known, line
        of_job = any(setting.path[0] == key for setting in SETTINGS)
        text = f"{line}\n[roles.worker]\n" if of_job else f"[roles.worker]\n{line}\n[roles.prepare]\n"
        resolve(tmp_path, text, overrides={"command": "true"} if key != "command" else None)


def test_commands_named_for_migration_exist() -> None:
    lines = [part for part in _HERE if part.startswith("tony ")]
    assert len(lines) > 4
    for line in lines:
        words = line.partition(" -- ")[0].split()[1:]
        assert words[0] in COMMANDS, line
        command = import_module(f"tony.cli.commands.{words[0]}").command
        options = {option for param in command.params for option in param.opts}
        assert {word for word in words[1:] if word.startswith("-")} <= options, line


def test_no_page_or_message_installs_another_project() -> None:
    """The package index has a project called `tony` that is not this one; `.[web]` is for lines about a checkout."""
    texts = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "NOTICE", *SOURCES.rglob("*.py"), *SOURCES.rglob("*.html")]
    lines = [line for path in texts for line in path.read_text(encoding="utf-8").splitlines()]
    foreign = re.compile(r"(?:pip install|--spec|--from) '?tony\b(?!-jobs)|\btony\[(?:web|stores|gpu)\]")
    checkout = re.compile(r"pip install .*'\.\[")
    assert [line for line in lines if foreign.search(line) or (checkout.search(line) and "checkout" not in line)] == []


def test_measurements_of_the_readme_stand_in_the_results() -> None:
    """Each number with a unit is in a section that its paragraph or row links to; each section with a `NO` is named."""
    results = (ROOT / "bench/results.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", results, re.DOTALL | re.MULTILINE))
    paragraphs = re.split(r"\n(?:- |\||\n)", (ROOT / "README.md").read_text(encoding="utf-8"))
    claims = {text: re.findall(r"bench/results\.md#(\w+)", text) for text in paragraphs}
    claims = {text: linked for text, linked in claims.items() if linked}
    assert len(claims) >= 5
    (missed,) = [linked for text, linked in claims.items() if text.startswith("`NO`")]
    assert set(missed) == {name for name, section in sections.items() if "| NO " in section}
    for text, linked in claims.items():
        for number in re.findall(r"\d[\d.,]* (?:ms|s|MiB)\b", text):
            assert any(number in sections[name] for name in linked), number
