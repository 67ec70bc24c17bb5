"""The file itself: its pages, its schema, its one workspace."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import Any

from sqlite_utils import Database

from memfs.engine.damage import shown
from memfs.engine.invariants.invariant import Told, quiet
from memfs.engine.schema import migrations
from memfs.model.findings import Violation

_OF_INDEXES = ("missing from index", "wrong # of entries in index")
MOST_OF_FILE = 100

_NAMED = "typeof(name) = 'text'"
"""In a damaged file the schema's own rows may hold anything."""


def file(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """SQLite's own check of every page, row and index."""
    for (said,) in db.execute(f"PRAGMA integrity_check({MOST_OF_FILE})"):
        if said != "ok":
            by_index = any(part in said for part in _OF_INDEXES)
            yield Violation("file", said.replace("\n", " "), repair="makes the indexes anew" if by_index else "")


def repair_file(db: sqlite3.Connection) -> None:
    """Make the indexes anew, where nothing else is damaged."""
    found = [each.repair for each in file(db)]
    if found and all(found):
        db.execute("REINDEX")


@cache
def _wanted() -> tuple[dict[str, set[Any]], dict[str, str]]:
    """What a new database has: the shape of each table, and the statement of each index and view by its name."""
    with closing(sqlite3.connect(":memory:")) as empty:
        migrations.apply(Database(empty, execute_plugins=False))
        return _shapes(empty), {
            name: sql
            for name, sql in empty.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'view')")
            if sql is not None
        }


def _shapes(db: sqlite3.Connection) -> dict[str, set[Any]]:
    """Of each table its columns, and what it keeps unique: not the text, which each SQLite writes its own way."""
    return {
        table: {
            *db.execute('SELECT name, upper(type), "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,)),
            *db.execute(
                "SELECT (SELECT group_concat(name) FROM pragma_index_info(list.name)) FROM pragma_index_list(?) AS list"
                " WHERE list.origin != 'c'",
                (table,),
            ),
        }
        for (table,) in db.execute(
            f"SELECT name FROM sqlite_master WHERE {_NAMED} AND type = 'table' AND substr(name, 1, 1) != '_'"
            " AND name NOT GLOB 'sqlite_*'"
        ).fetchall()
    }


def _indexes_and_views(db: sqlite3.Connection) -> set[str]:
    statement = f"SELECT name FROM sqlite_master WHERE {_NAMED} AND type IN ('index', 'view')"
    return {name for (name,) in db.execute(statement)}


def schema(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """The tables, indexes and views are those that this memfs makes; others may stand beside them."""
    shapes, made = _wanted()
    there = _shapes(db)
    for table, shape in shapes.items():
        if table not in there:
            yield Violation("schema", f"the table {table} is missing")
        elif there[table] != shape:
            yield Violation("schema", f"the table {table} has other columns or keys than memfs gives it")
    names = _indexes_and_views(db)
    for name in made:
        if name not in names:
            yield Violation("schema", f"the index or view {name} is missing", repair="makes it")


def repair_schema(db: sqlite3.Connection) -> None:
    """Make the indexes and views that are missing."""
    names = _indexes_and_views(db)
    for name, statement in _wanted()[1].items():
        if name not in names:
            db.execute(statement)


def workspace(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """There is one workspace, and it counts its scrubs."""
    rows = db.execute("SELECT retention_days, scrubs_wanted, scrubs_done FROM workspace").fetchall()
    if len(rows) != 1:
        yield Violation("workspace", f"there are {len(rows)} workspaces, not one")
    for days, wanted, done in rows:
        if not isinstance(days, int) or days < 1:
            yield Violation("workspace", f"versions are kept for {shown(days)} days")
        if not isinstance(wanted, int) or not isinstance(done, int) or done > wanted:
            found = f"{shown(done)} scrubs are done, but {shown(wanted)} were wanted"
            yield Violation("workspace", found, repair="wants one more: the next command that may write does it")


def repair_workspace(db: sqlite3.Connection) -> None:
    """Want one more scrub, where the count is wrong."""
    db.execute(
        "UPDATE workspace SET scrubs_wanted = 1, scrubs_done = 0 WHERE scrubs_done > scrubs_wanted"
        " OR typeof(scrubs_wanted) != 'integer' OR typeof(scrubs_done) != 'integer'"
    )
