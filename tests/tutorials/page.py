"""A tutorial as its reader follows it: files are saved, commands typed, their output compared with the page."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
TIMEOUT = 200.0  # seconds for one block of commands on a loaded machine

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: The sentence before a file names it: "Save this as `train.py`", "In `train.py`, ...".
_FILE = re.compile(r"(?:[Ss]ave (?:this|it) as|In) `([\w./-]+)`[^\n]*\n+\Z")


def tutorial(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def section_of_readme(title: str) -> str:
    """A section of README.md, from its heading to the next one."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def follow(page: str, folder: Path, env: Mapping[str, str], before: Mapping[str, Callable[[], object]]) -> None:
    """Do everything that a page says, in an empty folder. Blocks without a language are not run.

    Args:
        page: its text.
        folder: where the reader saves files and types commands.
        env: of the commands.
        before: beginning of a command -> what its reader waits for before typing it.
    """
    folder.mkdir(parents=True)
    output, used = "", set()
    for language, text, file in _blocks(page):
        if language == "sh":
            waits = {command for command in before if text.startswith(command)}
            used |= waits
            for command in waits:
                before[command]()
            output = _run(text, folder, env)
        elif language == "text":
            _compare(text, output)
        elif language == "diff":
            _edit(folder / file, text)
        else:
            assert file, f"no sentence names the file of this block:\n{text}"
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    assert used == set(before), "the page has lost a command"


def _blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Language, content, and the file that the sentence before it names, if it does."""
    for block in _BLOCK.finditer(page):
        named = _FILE.search(page, 0, block.start())
        yield block[1], block[2], named[1] if named else ""


def _run(commands: str, folder: Path, env: Mapping[str, str]) -> str:
    command = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}"
    return done.stdout


def _compare(shown: str, output: str) -> None:
    """Every line that is shown is part of a line of the output; `...` stands for anything."""
    for line in shown.splitlines():
        words = (re.escape(part.strip()) for part in line.split("..."))
        assert re.search(".*".join(words), output), f"not in the output: {line}\n{output}"


def _edit(file: Path, diff: str) -> None:
    old, new = ("".join(f"{line[1:]}\n" for line in diff.splitlines() if line.startswith(sign)) for sign in ("-", "+"))
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")
