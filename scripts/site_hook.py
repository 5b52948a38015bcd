"""Hook of MkDocs: the repository's own Markdown becomes a site without a change (`make site`).

The site's pages are those of docs/, README.md as its first page, and whatever of the repository they link to, such as
examples/ and bench/results.md. Links are relative to the repository in the sources and to the site in the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
START = {"README.md": "index.md"}

_CODE = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
#: Marks around generated parts; Python-Markdown would take a table right below one for HTML.
_MARK = re.compile(r"^<!-- (?:begin|end) .* -->$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace entries of the navigation that end with a slash by the pages of that folder, without its README.md."""
    config.nav = _expanded(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add README.md and every file outside docs/ that a page links to, directly or not."""
    queue = ["README.md", *(f"docs/{file.src_uri}" for file in files if file.is_documentation_page())]
    seen = set(queue)
    for name in queue:
        if not name.startswith("docs/"):
            files.append(File.generated(config, _place(name), content=_content(name)))
        for link in _LINK.findall(_CODE.sub("", (ROOT / name).read_text())) if name.endswith(".md") else ():
            target = _target(name, link)
            if target and target not in seen and not target.startswith("docs/"):
                seen.add(target)
                queue.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links of the repository into links of the site."""
    place = page.file.src_uri
    source = next((name for name, start in START.items() if start == place), None)
    source = source or (f"docs/{place}" if (ROOT / "docs" / place).is_file() else place)

    def link(found: re.Match[str]) -> str:
        target = _target(source, found[0])
        if target is None:
            return found[0]
        anchor = f"#{urlsplit(found[0]).fragment}" if "#" in found[0] else ""
        return posixpath.relpath(_place(target), posixpath.dirname(place) or ".") + anchor

    parts, end = [], 0
    markdown = _MARK.sub("", markdown)
    for code in _CODE.finditer(markdown):
        parts += [_LINK.sub(link, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(link, markdown[end:])])


def _expanded(entries: Any) -> Any:
    if isinstance(entries, str):
        return entries
    if isinstance(entries, dict):
        return {title: _expanded(entry) for title, entry in entries.items()}
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry.endswith("/"):
            pages = sorted((ROOT / "docs" / entry).glob("*.md"))
            found += [f"{entry}{page.name}" for page in pages if page.name != "README.md"]
        else:
            found.append(_expanded(entry))
    return found


def _target(source: str, link: str) -> str | None:
    """The file of the repository that a link of another one leads to; None if it leads nowhere else."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not parts.path:
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
    return posixpath.join(target, "README.md") if (ROOT / target).is_dir() else target


def _place(name: str) -> str:
    """Where a file of the repository is in the site."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return START.get(name, name)


def _content(name: str) -> str:
    """A page; of an example its files as well."""
    text = (ROOT / name).read_text()
    folder = posixpath.dirname(name)
    if not re.match(r"examples/.", folder):
        return text
    files = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / folder).iterdir()) if path.is_file())
    return text + "".join(
        f"\n## {posixpath.basename(file)}\n\n{_listing(file, (ROOT / file).read_text())}"
        for file in files
        if file != name
    )


def _listing(name: str, text: str) -> str:
    return f"```{posixpath.splitext(name)[1].removeprefix('.')}\n{text.rstrip()}\n```\n"
