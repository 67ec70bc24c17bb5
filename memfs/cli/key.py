"""``memfs key``: API keys, for ``memfs serve``."""

from collections.abc import Iterator, Mapping

import click

from memfs.cli.context import Invocation, complete_store, pass_invocation
from memfs.cli.output import (
    Column,
    Format,
    JsonObject,
    format_option,
    line,
    moment,
    note,
    quiet_option,
    write_list,
    write_object,
    write_result,
)
from memfs.cli.times import EXPIRY
from memfs.model.contract import api_key_object
from memfs.model.records import ApiKey


@click.group()
def key() -> None:
    """Make, list and revoke keys for the HTTP API.

    Whoever has a key's secret can use 'memfs serve' as the key says. KEY is a key's id, or its name where no other
    valid key has the same.

    \b
    Example:
      memfs key list
    """


@key.command()
@click.argument("name")
@click.option("--read-only", is_flag=True, help="It may read, and change nothing.")
@click.option(
    "-s",
    "--store",
    "stores",
    multiple=True,
    metavar="STORE",
    shell_complete=complete_store,
    help="It may use this store alone, by id, name or slug. The default is all stores.",
)
@click.option(
    "--expires", type=EXPIRY, metavar="WHEN", help="When it ends to be valid: a time, or a span from now such as 90d."
)
@quiet_option("secret")
@format_option
@pass_invocation
def create(
    invocation: Invocation,
    name: str,
    read_only: bool,
    stores: tuple[str, ...],
    expires: str | None,
    quiet: bool,
    format_: Format,
) -> None:
    """Make a key, and show its secret: this once and never again.

    The database keeps only a hash of the secret. What is changed with the key names it as who did it. Makes the
    database too where there is none.

    \b
    Example:
      memfs key create laptop
      memfs key create reviewer --read-only --store user-preferences --expires 90d
      export ANTHROPIC_API_KEY=$(memfs key create -q agent)
    """
    with invocation.workspace(create=not stores) as workspace:
        chosen = [workspace.stores.resolve(each) for each in stores]
        made, secret = workspace.keys.create(
            name, access="read_only" if read_only else "read_write", stores=chosen or None, expires_at=expires
        )
    if quiet:
        line(secret)
        return

    def facts() -> Iterator[tuple[str, str]]:
        yield from _facts(made, {store.id: store.name for store in chosen})
        yield "secret", secret

    write_object(format_, api_key_object(made) | {"secret": secret}, facts)
    note("keep the secret: it cannot be shown again")


def _facts(found: ApiKey, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "id", found.id
    yield "name", found.name
    yield "access", found.access
    yield "stores", _stores(found, names)
    yield "expires", moment(found.expires_at) or "never"


def _stores(found: ApiKey, names: Mapping[str, str]) -> str:
    if found.store_ids is None:
        return "all"
    return ", ".join(names.get(store_id, store_id) for store_id in found.store_ids) or "none: they are deleted"


@key.command("list")
@format_option
@pass_invocation
def list_(invocation: Invocation, format_: Format) -> None:
    """List all keys, oldest first, without their secrets.

    The state is valid, expired or revoked. When a key was last used is exact to a minute or so.

    \b
    Example:
      memfs key list
      memfs key list --format jsonl
    """
    from memfs.workspace.keys import is_valid

    with invocation.workspace() as workspace:
        keys = {found.id: found for found in workspace.keys.list()}
        names = {store.id: store.name for store in workspace.stores.list(include_archived=True)}

    def row(item: JsonObject) -> tuple[str, ...]:
        found = keys[item["id"]]
        state = "revoked" if found.revoked_at is not None else "valid" if is_valid(found) else "expired"
        return (
            found.id,
            found.name,
            state,
            found.access,
            _stores(found, names),
            moment(found.created_at),
            moment(found.expires_at) or "never",
            moment(found.last_used_at) or "never",
        )

    write_list(
        format_,
        map(api_key_object, keys.values()),
        [
            Column("ID", fixed=True),
            Column("NAME"),
            Column("STATE", fixed=True),
            Column("ACCESS", fixed=True),
            Column("STORES"),
            Column("CREATED", fixed=True),
            Column("EXPIRES", fixed=True),
            Column("LAST USED", fixed=True),
        ],
        row,
    )


@key.command()
@click.argument("key_name", metavar="KEY")
@format_option
@pass_invocation
def revoke(invocation: Invocation, key_name: str, format_: Format) -> None:
    """Make a key invalid for ever, at once.

    A server that is running refuses it from its next request on. What was done with it stays in the history, with
    its id.

    \b
    Example:
      memfs key revoke laptop
    """
    with invocation.workspace() as workspace:
        found = workspace.keys.revoke(workspace.keys.resolve(key_name).id)
    write_result(format_, api_key_object(found), f"revoked {found.id} ({found.name})")
