"""Documents that list what there is agree with the program."""

from __future__ import annotations

import re
from enum import Enum
from importlib import import_module
from pathlib import Path

import pytest
from click import Context

import tony
from tests.config.jobs import resolve
from tony.cli.main import COMMANDS, root
from tony.config.legacy.keys import KEYS, VARIABLES
from tony.config.table.settings_table import SETTINGS
from tony.schedulers.registry import load, names, package_of

ROOT = Path(__file__).parents[2]
SOURCES = Path(tony.__file__).parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def test_every_package_and_top_level_module_is_in_the_overview() -> None:
    """The one of `docs/architecture.md`."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    overview = page[page.index("src/tony/\n") :]
    packages = {f"{path.parent.name}/" for path in SOURCES.glob("*/__init__.py")}
    modules = {path.name for path in SOURCES.glob("*.py")} - {"__init__.py"}
    assert (packages | modules) - set(overview[: overview.index("\n```")].split()) == set()


@pytest.mark.parametrize("name", names())
def test_a_scheduler_is_complete(name: str) -> None:
    """Its settings, the suite that it passes, its golden request, its page."""
    assert name == load(name).name
    import_module(f"{package_of(name)}.settings")
    for path in (f"tests/conformance/test_{name}.py", f"docs/{name}.md"):
        assert (ROOT / path).is_file(), path
    golden = ROOT / "tests" / "golden" / "schedulers"
    assert (golden / f"{name}.json").is_file() or list((golden / name).glob("*.json")), name


def test_reasons_why_a_setting_of_linkedin_tony_has_no_effect_name_existing_commands() -> None:
    """`convert` and `validate` print them."""
    reasons = " ".join([*(key.obsolete or "" for key in KEYS), *(each.obsolete or "" for each in VARIABLES)])
    assert set(re.findall(r"`tony ([a-z-]+)", reasons)) <= set(COMMANDS)


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
        command = root.get_command(Context(root), words[0])
        assert command is not None
        options = {option for param in command.params for option in param.opts}
        assert {word for word in words[1:] if word.startswith("-")} <= options, line


def test_no_page_or_message_installs_another_project() -> None:
    """The package index has a project called `tony` that is not this one; `.[web]` is for lines about a checkout."""
    texts = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "NOTICE", *SOURCES.rglob("*.py"), *SOURCES.rglob("*.html")]
    lines = [line for path in texts for line in path.read_text(encoding="utf-8").splitlines()]
    foreign = re.compile(r"(?:pip install|--spec|--from) '?tony\b(?!-jobs)|\btony\[(?:web|stores|gpu)\]")
    checkout = re.compile(r"pip install .*'\.\[")
    assert [line for line in lines if foreign.search(line) or (checkout.search(line) and "checkout" not in line)] == []


def test_pictures_of_the_readme_are_small_and_described() -> None:
    """The README has a text for readers who see no pictures; the recording runs no script and names no machine."""
    folder = ROOT / "docs" / "pictures"
    shown = dict(re.findall(r"!\[(.*)\]\(docs/pictures/(.*)\)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert sorted(shown.values()) == sorted(path.name for path in folder.iterdir())
    assert all(len(words) > 40 for words in shown)
    assert [path for path in folder.iterdir() if path.stat().st_size > 300_000] == []
    recording = (folder / "demo.svg").read_text(encoding="utf-8")
    assert not re.search(r"<script|<image|@import|url\(", recording)
    assert set(re.findall(r"(?<![\w-])/(?:home/\w+|tmp|root|usr|var|work)\b", recording)) <= {"/home/ann"}


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
