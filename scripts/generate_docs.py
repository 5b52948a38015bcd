"""Writes the parts of the docs that come from the code. `--check` only says whether they are up to date."""

import re
import sys
from pathlib import Path

from legacy_tables import flags_table, settings_table, variables_table

from tony.advice.engine import BUILT_IN
from tony.advice.heuristic import PROOF, Heuristic
from tony.config.settings_doc import settings_table_markdown
from tony.core.transitions import JOB_TABLE
from tony.model.states import ENDED_JOB_STATES
from tony.units import format_amount

DOCS = Path(__file__).resolve().parents[1] / "docs"


def with_block(text: str, name: str, content: str) -> str:
    """The text with the part between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    found = re.search(re.escape(begin) + ".*?" + re.escape(end), text, re.DOTALL)
    if not found:
        raise SystemExit(f"docs: no place marked {begin}")
    return text[: found.start()] + f"{begin}\n{content}\n{end}" + text[found.end() :]


def draw_job_states() -> str:
    """The state diagram of a job, in Mermaid's notation."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, move), target in JOB_TABLE.items():
        arrows.setdefault((state.value, target.value), []).append(move.value)
    first = next(iter(JOB_TABLE))[0].value
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {a} --> {b}: {', '.join(moves)}" for (a, b), moves in arrows.items()]
    lines += [f"    {state.value} --> [*]" for state in sorted(ENDED_JOB_STATES, key=lambda state: state.value)]
    return "\n".join([*lines, "```"])


def index_of_heuristics() -> str:
    """The table of all heuristics with links to their pages."""
    rows = [f"| [`{each.name}`]({each.name}.md) | {each.title} |" for each in BUILT_IN]
    return "\n".join(["| recommendation | about |", "|---|---|", *rows])


def thresholds(heuristic: type[Heuristic]) -> str:
    """The table of a heuristic's thresholds, without those of docs/advice/README.md."""
    common = PROOF if set(PROOF) <= set(heuristic.thresholds) else ()
    rows = [
        f"| `{each.name}` | {format_amount(each.value, each.measure)} | {each.meaning} |"
        for each in heuristic.thresholds
        if each not in common
    ]
    return "\n".join(["| threshold | value | meaning |", "|---|---|---|", *rows])


def generated() -> dict[Path, str]:
    """Every generated page with its content."""
    architecture = (DOCS / "architecture.md").read_text()
    architecture = with_block(architecture, "job states", draw_job_states())
    migrating = (DOCS / "migrating.md").read_text()
    for name, table in (("settings", settings_table()), ("flags", flags_table()), ("variables", variables_table())):
        migrating = with_block(migrating, f"original {name}", table)
    advice = DOCS / "advice"
    pages = {each: advice / f"{each.name}.md" for each in BUILT_IN}
    return {
        advice / "README.md": with_block((advice / "README.md").read_text(), "heuristics", index_of_heuristics()),
        **{page: with_block(page.read_text(), "thresholds", thresholds(each)) for each, page in pages.items()},
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
