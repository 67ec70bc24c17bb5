"""``memfs store guard``: what a store refuses or masks in every write."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import click

from memfs.cli.context import Invocation, pass_invocation, store_argument
from memfs.cli.output import Format, format_option, write_object
from memfs.model.contract import guards_object
from memfs.model.records import MAX_CONTENT_BYTES, NO_GUARDS, GuardAction, Guards

Choice = Literal["reject", "mask", "off"]


class _LimitType(click.ParamType[int]):
    """A number of bytes; ``off`` is 0, which no limit can be."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        if value == "off":
            return 0
        try:
            limit = int(value)
        except ValueError:
            limit = 0
        if not 1 <= limit <= MAX_CONTENT_BYTES:
            self.fail(f"{value!r} is no limit: write 1 to {MAX_CONTENT_BYTES} (bytes), or off", param, ctx)
        return limit


_CHOICE = click.Choice(["reject", "mask", "off"])


@click.command()
@store_argument
@click.option("--secrets", type=_CHOICE, help="What to do with keys, tokens and passwords in a text.")
@click.option(
    "--personal-data",
    type=_CHOICE,
    help="What to do with e-mail addresses, telephone, card and account numbers in a text.",
)
@click.option("--max-bytes", type=_LimitType(), metavar="N|off", help="Refuse texts of more than N bytes.")
@click.option(
    "--allow-path",
    "allow_paths",
    multiple=True,
    metavar="PATTERN",
    help="Refuse every path that matches no PATTERN; those given replace the list.",
)
@click.option("--allow-any-path", is_flag=True, help="Allow every path again.")
@click.option("--clear", is_flag=True, help="Remove all guards before those that are named here are set.")
@format_option
@pass_invocation
def guard(
    invocation: Invocation,
    store_name: str,
    secrets: Choice | None,
    personal_data: Choice | None,
    max_bytes: int | None,
    allow_paths: tuple[str, ...],
    allow_any_path: bool,
    clear: bool,
    format_: Format,
) -> None:
    """Show or set what a store refuses or masks in every write.

    Guards judge each write, whoever makes it and by whatever way: a mount, the command line, an import, a restore.
    Without options it shows the guards of the store; with options it changes those that are named, and no others.
    What is in the store already stays, and so does its history.

    'reject' refuses the whole write and says which line to change; 'mask' stores the text with '[… removed]' in
    the place of what was found. Both look for known forms, so neither finds everything.

    A PATTERN is matched with the whole path of a memory: '*' and '?' stand for characters of one segment, '**' for
    any number of segments. Quote it, so that the shell leaves it alone.

    \b
    Example:
      memfs store guard user-preferences --secrets reject --max-bytes 8192
      memfs store guard user-preferences --allow-path '/notes/**' --allow-path '/*.md'
      memfs store guard user-preferences --clear
      memfs store guard user-preferences
    """
    if allow_paths and allow_any_path:
        raise click.UsageError("--allow-path and --allow-any-path contradict each other: give one of them")

    def changed(guards: Guards) -> Guards:
        wanted = NO_GUARDS if clear else guards
        if secrets is not None:
            wanted = replace(wanted, secrets=_action(secrets))
        if personal_data is not None:
            wanted = replace(wanted, personal_data=_action(personal_data))
        if max_bytes is not None:
            wanted = replace(wanted, max_content_bytes=max_bytes or None)
        if allow_paths or allow_any_path:
            wanted = replace(wanted, allowed_paths=allow_paths)
        return wanted

    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)
        if clear or changed(found.guards) is not found.guards:
            # Judged again in the transaction: another change at the same moment must not be lost.
            found = workspace.stores.set_guards(found.id, changed)
    write_object(format_, guards_object(found), lambda: _facts(found.guards))


def _action(choice: Choice) -> GuardAction | None:
    return None if choice == "off" else choice


def _facts(guards: Guards) -> Iterator[tuple[str, str]]:
    yield "secrets", guards.secrets or "off"
    yield "personal data", guards.personal_data or "off"
    yield "max bytes", "off" if guards.max_content_bytes is None else str(guards.max_content_bytes)
    for pattern in guards.allowed_paths or ("any",):
        yield "allowed path", pattern


def summary(guards: Guards) -> str:
    """The guards that are on, in a line; empty where none is."""
    return ", ".join(
        [
            *([f"secrets {guards.secrets}"] if guards.secrets else []),
            *([f"personal data {guards.personal_data}"] if guards.personal_data else []),
            *([f"at most {guards.max_content_bytes} bytes"] if guards.max_content_bytes else []),
            *([f"only {' '.join(guards.allowed_paths)}"] if guards.allowed_paths else []),
        ]
    )
