"""Generates the tables of LinkedIn TonY settings and flags in docs/migrating.md."""

from __future__ import annotations

from itertools import groupby

from tony.config.legacy.flags import FLAGS
from tony.config.legacy.keys import KEYS, VARIABLES

#: Flag -> its replacement.
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
    "debug": "not needed: the job directory keeps all files",
    "help": "the same",
}


def settings_table() -> str:
    """Return the table of every setting, section by section."""
    lines = []
    for section, rows in groupby(KEYS, key=lambda row: row.section):
        lines += [f"### {section}", "", "| setting | default | meaning | replacement |", "|---|---|---|---|"]
        for row in rows:
            default = f"`{row.default}`" if row.default else ""
            here = _code(row.becomes) if row.becomes else row.gone
            lines.append(f"| `{row.name}` | {default} | {_cell(row.meaning)} | {_cell(here)} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def flags_table() -> str:
    """Return the table of every flag."""
    lines = ["| flag | meaning | replacement |", "|---|---|---|"]
    for row in FLAGS:
        argument = f" {row.argument}" if row.argument else ""
        lines.append(f"| `--{row.name}{argument}` | {_cell(row.meaning)} | {_FLAGS[row.name]} |")
    return "\n".join(lines)


def variables_table() -> str:
    """Return the table of every environment variable."""
    lines = ["| variable | in the environment of | meaning | here |", "|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.where} | {_cell(row.meaning)} | {_cell(row.becomes or row.gone)} |" for row in VARIABLES
    ]
    return "\n".join(lines)


def _code(becomes: str) -> str:
    """Format a setting as code; leave words unchanged."""
    return becomes if " " in becomes else f"`{becomes}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
