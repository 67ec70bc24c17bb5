"""``memfs store``: make, list, show, change and copy stores; the group that holds the other commands for them."""

from collections.abc import Iterator

import click

from memfs.cli.context import Invocation, actor, pass_invocation, store_argument
from memfs.cli.output import (
    Column,
    Format,
    counted,
    format_option,
    line,
    moment,
    note,
    quiet_option,
    write_list,
    write_object,
    write_result,
)
from memfs.cli.store_ending import archive, delete
from memfs.cli.store_guard import guard, summary
from memfs.cli.store_restore import restore
from memfs.cli.transfer import export, import_
from memfs.model.contract import store_object
from memfs.model.records import NO_GUARDS, Store


@click.group()
def store() -> None:
    """Make, change, restore, import and export stores.

    A store is a named collection of up to 2,000 memories. STORE is a store's id, or its name or slug (the
    name of its directory when mounted) where no other store has the same.

    \b
    Example:
      memfs store list
    """


for _command in (archive, delete, export, guard, import_, restore):
    store.add_command(_command)


def _metadata(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} has no '=': write KEY=VALUE", param_hint="--metadata")
        if key in found:
            raise click.BadParameter(f"the key {key!r} is given twice", param_hint="--metadata")
        found[key] = value
    return found


@store.command()
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="What the store is for; agents are told.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A pair to keep with it; up to 16.")
@quiet_option()
@format_option
@pass_invocation
def create(
    invocation: Invocation, name: str, description: str, metadata: tuple[str, ...], quiet: bool, format_: Format
) -> None:
    """Make a store and print its id.

    The first store makes the database too. The id goes to stdout, a word about what to do next to stderr.

    \b
    Example:
      memfs store create "Team standards" --description "How we write code" --metadata team=platform
      id=$(memfs store create -q Scratchpad)
    """
    from memfs.model.paths import slug
    from memfs.workspace.stores import check_store

    pairs = _metadata(metadata)
    check_store(name, description, pairs)  # before a database is made for a store that cannot be
    with invocation.workspace(create=True) as workspace:
        made = workspace.stores.create(name, description, pairs)
    _write_made(format_, made, quiet=quiet)
    if not quiet:
        note(f"created the store {name!r} in {invocation.db}; its directory is named {slug(name, made.id)}")


def _write_made(format_: Format, made: Store, *, quiet: bool) -> None:
    """A new store on stdout: its id, which scripts take, or the object."""
    if quiet or format_ == "table":
        line(made.id)
    else:
        write_object(format_, store_object(made), list)


@store.command("list")
@click.option("--include-archived", is_flag=True, help="Show archived stores too.")
@quiet_option("ids")
@format_option
@pass_invocation
def list_(invocation: Invocation, include_archived: bool, quiet: bool, format_: Format) -> None:
    """List the stores, oldest first.

    Archived stores, which can only be read, are left out unless asked for.

    \b
    Example:
      memfs store list --include-archived --format json
      memfs store list -q
    """
    with invocation.workspace() as workspace:
        stores = workspace.stores.list(include_archived=include_archived)
    if quiet:
        for each in stores:
            line(each.id)
        return
    write_list(
        format_,
        map(store_object, stores),
        [
            Column("ID", fixed=True),
            Column("CREATED", fixed=True),
            *([Column("ARCHIVED", fixed=True)] if include_archived else []),
            Column("NAME"),
            Column("DESCRIPTION"),
        ],
        lambda item: [
            item["id"],
            moment(item["created_at"]),
            *([moment(item["archived_at"])] if include_archived else []),
            item["name"],
            item["description"],
        ],
    )


@store.command()
@store_argument
@format_option
@pass_invocation
def show(invocation: Invocation, store_name: str, format_: Format) -> None:
    """Show one store.

    The table also counts its memories and names its guards; JSON holds the store alone.

    \b
    Example:
      memfs store show user-preferences
    """
    from memfs.model.paths import slug

    with invocation.workspace() as workspace:
        found = workspace.stores.resolve(store_name)

        def facts() -> Iterator[tuple[str, str]]:
            memories = workspace.memories.list(found.id)
            yield "id", found.id
            yield "name", found.name
            yield "directory", slug(found.name, found.id)
            yield "description", found.description
            for key, value in sorted(found.metadata.items()):
                yield "metadata", f"{key}={value}"
            yield "memories", str(len(memories))
            yield "bytes", str(sum(memory.content_size_bytes for memory in memories))
            if found.guards != NO_GUARDS:
                yield "guards", summary(found.guards)
            yield "created", moment(found.created_at)
            yield "updated", moment(found.updated_at)
            if found.archived_at is not None:
                yield "archived", moment(found.archived_at)

        write_object(format_, store_object(found), facts)


@store.command()
@store_argument
@click.option("--name", metavar="NAME", help="Its new name.")
@click.option("--description", metavar="TEXT", help='What it is for; "" removes the description.')
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A pair to add or to replace.")
@click.option("--remove-metadata", "removed", multiple=True, metavar="KEY", help="A pair to remove.")
@format_option
@pass_invocation
def update(
    invocation: Invocation,
    store_name: str,
    name: str | None,
    description: str | None,
    metadata: tuple[str, ...],
    removed: tuple[str, ...],
    format_: Format,
) -> None:
    """Change a store's name, description or metadata.

    What is not named stays as it is, other pairs of the metadata too. The directory of a mount that is there keeps
    its name, and its session the name and description of its beginning; the next mount has the new ones. An archived
    store cannot be changed.

    \b
    Example:
      memfs store update user-preferences --description "How this user likes things done"
      memfs store update user-preferences --metadata team=platform --remove-metadata owner
      memfs store update user-preferences --name "Preferences of Ada"
    """
    pairs: dict[str, str | None] = {**_metadata(metadata)}
    if both := sorted(pairs.keys() & set(removed)):
        raise click.BadParameter(f"the key {both[0]!r} is also given with --metadata", param_hint="--remove-metadata")
    pairs |= dict.fromkeys(removed)
    if name is None and description is None and not pairs:
        raise click.UsageError("nothing to change: give --name, --description, --metadata or --remove-metadata")
    with invocation.workspace() as workspace:
        before = workspace.stores.resolve(store_name)
        after = workspace.stores.update(before.id, name=name, description=description, metadata=pairs)
    which = f"the store {after.name!r} ({after.id})"
    write_result(
        format_,
        store_object(after),
        f"{which} is unchanged: all is so already" if after == before else f"updated {which}",
    )


@store.command("copy")
@store_argument
@click.argument("name")
@click.option("--description", metavar="TEXT", help="What the copy is for; else as with the original.")
@quiet_option()
@format_option
@pass_invocation
def copy_(
    invocation: Invocation, store_name: str, name: str, description: str | None, quiet: bool, format_: Format
) -> None:
    """Make a new store with the memories of another.

    It is called NAME, and its id is printed. The copy also has the directories, the metadata and the guards. It
    does not have the history: its memories are new ones, made by you now. An archived store can be copied, and the
    copy can be written.

    \b
    Example:
      memfs store copy user-preferences "User preferences, sorted"
      id=$(memfs store copy -q user-preferences Experiment --description "To try something out")
    """
    from memfs.model.paths import slug

    with invocation.workspace() as workspace:
        source = workspace.stores.resolve(store_name)
        made = workspace.stores.copy(source.id, name, actor(), description=description)
        number = len(workspace.memories.list(made.id))
    _write_made(format_, made, quiet=quiet)
    if not quiet:
        memories = counted(number, "memory", "memories")
        note(f"copied {memories} of {source.name!r}; the directory is named {slug(made.name, made.id)}")
