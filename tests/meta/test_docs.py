"""What the docs show is true as far as a machine can tell: samples load, links lead somewhere, lists are complete."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tony
from tony.cli.commands import completion
from tony.cli.main import COMMANDS
from tony.config.files.site_policy import read_sites
from tony.config.load import load
from tony.frameworks.registry import names
from tony.model.failure import Failure
from tony.model.file_entry import is_archive
from tony.model.job_report import JobReport, TaskReport

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")],
    key=lambda page: page.relative_to(ROOT).parts,
)
COMMAND_LINE = ROOT / "docs" / "command-line.md"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _blocks(language: str) -> Iterator[Any]:
    for page in PAGES:
        for match in _BLOCK.finditer(_text(page)):
            if match[1] == language:
                line = _text(page).count("\n", 0, match.start()) + 1
                yield pytest.param(match[2], id=f"{page.relative_to(ROOT)}:{line}")


def _prose(page: Path) -> str:
    """A page without its blocks of code, and without code between backquotes."""
    return re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", _text(page)))


def _anchors(page: Path) -> set[str]:
    """What a heading is called in an address, as GitHub makes it."""
    headings = _HEADING.findall(_BLOCK.sub("", _text(page)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("text", list(_blocks("toml")))
def test_a_toml_sample_loads(tmp_path: Path, text: str) -> None:
    """Job files load, whole or with a command added; site files do, too. Samples for other programs are TOML."""
    values = tomllib.loads(text)
    path = tmp_path / "job.toml"
    path.write_text(text, encoding="utf-8")
    if "project" in values:
        return
    if text.startswith("# /etc/tony/"):
        sites, problems = read_sites([path])
        assert (1, []) == (len(sites), problems)
        load(environ={}, cwd=tmp_path, site_files=[path], overrides={"command": "true"})
        return
    (tmp_path / values.get("source", ".")).mkdir(exist_ok=True)
    for entry in values.get("files", ()):
        (tmp_path / re.split("::|#", entry)[0]).touch()
    if is_archive(values.get("python", "")):
        (tmp_path / values["python"]).touch()
    resolved = load(path, environ={}, cwd=tmp_path, site_files=[], sets=[] if "command" in values else ["command=true"])
    assert resolved.spec.framework in names()


@pytest.mark.parametrize("text", list(_blocks("python")))
def test_a_python_sample_compiles_and_uses_public_names(text: str) -> None:
    """Whatever it imports from `tony` is a public name."""
    compile(text, "sample", "exec")
    for name in re.findall(r"\btony\.([A-Za-z_]+)", text):
        if f"from tony.{name}" not in text:
            assert name in tony.__all__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file of the project, and to a heading in it where one is named."""
    for target in _LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), target
        assert ROOT in (place, *place.parents), target
        assert not anchor or anchor in _anchors(place), target


def test_every_decision_is_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^\| \[(\d{4})\]\(((\d{4})-.*\.md)\)", _text(folder / "README.md"), re.MULTILINE)
    assert [name for _, name, _ in listed] == sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert all(shown == number for shown, _, number in listed)


def test_every_command_is_on_its_page() -> None:
    """With one example, in the first block."""
    examples = next(block for language, block in _BLOCK.findall(_text(COMMAND_LINE)) if language == "sh")
    assert list(COMMANDS) == re.findall(r"^tony ([\w-]+)", examples, re.MULTILINE)


def test_the_lines_for_completion_are_those_that_the_command_prints() -> None:
    """A person copies them from either place."""
    epilog = completion.command.epilog or ""
    lines = [line for line in epilog.split("\n\n") if "tony completion" in line]
    assert 3 == len(lines)
    for line in lines:
        assert f"    {line}\n" in _text(COMMAND_LINE)


@pytest.mark.parametrize("report", [JobReport, TaskReport, Failure])
def test_every_field_of_a_report_is_on_the_page(report: type) -> None:
    """The table of JSON fields grows with the report."""
    told = set(re.findall(r"`(\w+)`", _text(COMMAND_LINE)))
    assert {field.name.rstrip("_") for field in dataclasses.fields(report)} <= told
