"""The tables of LinkedIn TonY's settings, flags and variables in docs/migrating.md."""

from __future__ import annotations

from itertools import groupby

from tony.config.legacy.flags import FLAGS
from tony.config.legacy.keys import KEYS, VARIABLES

#: The equivalent of each flag.
_FLAGS = {
    "executes": "`command`",
    "task_params": "`command`",
    "python_binary_path": "`command`",
    "python_venv": '`files = ["ARCHIVE::venv#archive"]`',
    "src_dir": "`source`, `gitignore = false`",
    "hdfs_classpath": '`files = ["hdfs:///PATH#optional"]`',
    "shell_env": "`env.<name>`",
    "container_env": "`container_env.<name>`",
    "conf": "as in the XML",
    "conf_file": "the job file",
    "sidecar_tensorboard_log_dir": "`roles.tensorboard`",
    "debug": "no effect: the job directory keeps everything",
    "help": "the same",
}


def settings_table() -> str:
    """Return every setting that has an equivalent, section by section, then those without effect, by reason."""
    lines = []
    for section, rows in groupby((row for row in KEYS if row.becomes), key=lambda row: row.section):
        lines += [f"### {section}", "", "| LinkedIn TonY (default) | tony |", "|---|---|"]
        lines += [f"| `{row.name}`{_default(row.default)} | {_cell(_code(row.becomes))} |" for row in rows]
        lines.append("")
    lines += ["### Without effect", "", "| LinkedIn TonY | why |", "|---|---|"]
    return "\n".join(lines + _by_reason([(row.name, row.obsolete) for row in KEYS if row.obsolete]))


def flags_table() -> str:
    """Return every flag of LinkedIn TonY's command line."""
    lines = ["| flag | tony |", "|---|---|"]
    lines += [f"| `--{row.name}{f' {row.argument}' if row.argument else ''}` | {_FLAGS[row.name]} |" for row in FLAGS]
    return "\n".join(lines)


def variables_table() -> str:
    """Return every environment variable that changes what LinkedIn TonY does."""
    lines = ["| variable | set in | tony |", "|---|---|---|"]
    lines += [f"| `{row.name}` | {row.where} | {_cell(row.becomes)} |" for row in VARIABLES if row.becomes]
    lines += ["", "| without effect | why |", "|---|---|"]
    return "\n".join(lines + _by_reason([(row.name, row.obsolete) for row in VARIABLES if row.obsolete]))


def _by_reason(rows: list[tuple[str, str]]) -> list[str]:
    """Return one table row for each reason, with the names that share it."""
    names: dict[str, list[str]] = {}
    for name, reason in rows:
        names.setdefault(reason, []).append(f"`{name}`")
    return [f"| {', '.join(same)} | {_cell(reason)} |" for reason, same in names.items()]


def _default(default: str) -> str:
    return f" (`{default}`)" if default else ""


def _code(becomes: str) -> str:
    """Return a setting as code, a sentence unchanged."""
    return becomes if " " in becomes else f"`{becomes}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
