"""The table of the original's settings and flags for people: a part of docs/migrating.md."""

from __future__ import annotations

from itertools import groupby

from tony.config.legacy.flags import FLAGS
from tony.config.legacy.keys import KEYS, VARIABLES

#: What becomes of each flag.
_FLAGS = {
    "executes": "`command`",
    "task_params": "`command`",
    "python_binary_path": "`command`",
    "python_venv": '`files = ["ARCHIVE::venv#archive"]`',
    "src_dir": "`source`, `gitignore = false`",
    "hdfs_classpath": '`files = ["hdfs:///PATH#optional"]`',
    "shell_env": "`env.<name>`",
    "container_env": "`container_env.<name>`",
    "conf": "as in XML",
    "conf_file": "the job file",
    "sidecar_tensorboard_log_dir": "`roles.tensorboard`",
    "debug": "nothing is made that would have to be kept: a job's record has its files",
    "help": "the same",
}


def settings_table() -> str:
    """Every setting of the original, section by section."""
    lines = []
    for section, rows in groupby(KEYS, key=lambda row: row.section):
        lines += [f"### {section}", "", "| setting | default there | what it says | here |", "|---|---|---|---|"]
        for row in rows:
            default = f"`{row.default}`" if row.default else ""
            here = _code(row.becomes) if row.becomes else row.gone
            lines.append(f"| `{row.name}` | {default} | {_cell(row.meaning)} | {_cell(here)} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def flags_table() -> str:
    """Every flag of the original's command line."""
    lines = ["| flag | what it says | here |", "|---|---|---|"]
    for row in FLAGS:
        argument = f" {row.argument}" if row.argument else ""
        lines.append(f"| `--{row.name}{argument}` | {_cell(row.meaning)} | {_FLAGS[row.name]} |")
    return "\n".join(lines)


def variables_table() -> str:
    """Every environment variable that switches something in the original."""
    lines = ["| variable | in the environment of | what it does there | here |", "|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.where} | {_cell(row.meaning)} | {_cell(row.becomes or row.gone)} |" for row in VARIABLES
    ]
    return "\n".join(lines)


def _code(becomes: str) -> str:
    """A setting of ours as code; words as they are."""
    return becomes if " " in becomes else f"`{becomes}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
