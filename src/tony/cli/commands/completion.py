"""`tony completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tony.cli.options import WordParameter
from tony.errors import PlatformError

#: Shell -> the command that installs its completion.
_INSTALL = {
    "bash": "echo 'eval \"$(tony completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(tony completion zsh)\"' >> ~/.zshrc",
    "fish": "tony completion fish > ~/.config/fish/completions/tony.fish",
}


@click.command("completion", epilog="To install it:\n\n" + "\n\n".join(_INSTALL.values()))
@click.argument("shell", type=WordParameter(list(_INSTALL)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print shell code that completes commands, options and job ids."""
    completion = get_completion_class(shell)
    if completion is None:
        raise PlatformError(f"click has no completion for {shell}")
    click.echo(completion(ctx.find_root().command, {}, "tony", "_TONY_COMPLETE").source())
