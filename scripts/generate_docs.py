"""Writes the parts of the docs that come from the code. `--check` only says whether they are up to date."""

import re
import sys
from pathlib import Path

from tony.advice.heuristics_doc import help_pages, index_table
from tony.config.legacy.settings_doc import flags_table, settings_table, variables_table
from tony.config.table.settings_doc import settings_table_markdown
from tony.core.transitions import draw_job_diagram, draw_task_diagram

DOCS = Path(__file__).resolve().parents[1] / "docs"


def with_block(text: str, name: str, content: str) -> str:
    """The text with the part between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    found = re.search(re.escape(begin) + ".*?" + re.escape(end), text, re.DOTALL)
    if not found:
        raise SystemExit(f"docs: no place marked {begin}")
    return text[: found.start()] + f"{begin}\n{content}\n{end}" + text[found.end() :]


def generated() -> dict[Path, str]:
    """Every generated page with its content."""
    architecture = (DOCS / "architecture.md").read_text()
    architecture = with_block(architecture, "job states", f"```mermaid\n{draw_job_diagram()}\n```")
    architecture = with_block(architecture, "task states", f"```mermaid\n{draw_task_diagram()}\n```")
    migrating = (DOCS / "migrating.md").read_text()
    for name, table in (("settings", settings_table()), ("flags", flags_table()), ("variables", variables_table())):
        migrating = with_block(migrating, f"original {name}", table)
    advice = with_block((DOCS / "advice" / "README.md").read_text(), "findings", index_table())
    return {
        DOCS / "advice" / "README.md": advice,
        **{DOCS / "advice" / name: text for name, text in help_pages().items()},
        DOCS / "architecture.md": architecture,
        DOCS / "settings.md": settings_table_markdown(),
        DOCS / "migrating.md": migrating,
    }


def main() -> int:
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"docs: {path.relative_to(DOCS.parent)} is not what the code says; run `make docs`")
        return bool(stale)
    for path in stale:
        path.write_text(generated()[path])
        print(f"docs: wrote {path.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
