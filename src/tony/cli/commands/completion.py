"""`tony completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tony.errors import PlatformError

#: Where each shell reads what this command prints.
_PLACES = {
    "bash": "echo 'eval \"$(tony completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(tony completion zsh)\"' >> ~/.zshrc",
    "fish": "tony completion fish > ~/.config/fish/completions/tony.fish",
}


@click.command("completion", epilog="To have it always:\n\n" + "\n\n".join(_PLACES.values()))
@click.argument("shell", type=click.Choice(list(_PLACES)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print shell code that completes commands, options and job ids."""
    completion = get_completion_class(shell)
    if completion is None:
        raise PlatformError(f"click knows no completion for {shell}")
    click.echo(completion(ctx.find_root().command, {}, "tony", "_TONY_COMPLETE").source())
