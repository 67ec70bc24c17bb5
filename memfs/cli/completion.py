"""``memfs completion``: the script that teaches a shell to complete our commands, options and stores."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script.

    With it the shell completes commands, options and the names of stores. Load it in the shell's start-up
    file.

    \b
    Example:
      memfs completion bash                           # the script
      eval "$(memfs completion bash)"                 # in ~/.bashrc
      eval "$(memfs completion zsh)"                  # in ~/.zshrc
      memfs completion fish | source                  # in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"this click cannot complete for {shell}")
    click.echo(found(ctx.find_root().command, {}, "memfs", "_MEMFS_COMPLETE").source())
