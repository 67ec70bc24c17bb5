"""What holds of every database, at any time: each invariant with how a violation is found, and how it can be repaired.

A repair changes what is recorded twice, or what nothing refers to; it never invents data, never takes a version or its
text away, and never makes a wrong hash right. What is left is reported: a person has to decide.

Finding reads only, in whatever transaction the caller has open. Repairs are made in the order of ``INVARIANTS``,
because the later ones rest on what the earlier ones have put right, and with foreign keys off, so that nothing goes
that was not meant.
"""

from memfs.engine.invariants import database, live, places, relations, values, versions
from memfs.engine.invariants.invariant import Invariant

__all__ = ["INVARIANTS", "Invariant"]

_RESTORE = "restore a backup, or take out what can be read with 'memfs store export' and 'memfs version export'"

INVARIANTS = (
    Invariant("file", "SQLite finds no page, row or index damaged", database.file, database.repair_file, _RESTORE),
    Invariant("schema", "the tables, indexes and views are memfs's", database.schema, database.repair_schema, _RESTORE),
    Invariant("workspace", "there is one workspace", database.workspace, database.repair_workspace, _RESTORE),
    Invariant(
        "states",
        "a deletion has no text, a redacted version nothing, each other version a path",
        versions.states,
        versions.repair_states,
        "look at the version, and redact it, or restore a backup",
    ),
    Invariant(
        "texts",
        "each version has its text, with its hash and size",
        versions.texts,
        versions.repair_texts,
        "the text is gone from this database: a backup from before may have it",
    ),
    Invariant(
        "hashes",
        "each text is UTF-8, with the hash and size that it is known by",
        versions.hashes,
        versions.repair_texts,
        "do not trust this text: take it from a backup, and write it as a new version",
    ),
    Invariant(
        "operations",
        "a memory is created first, deleted last, and in one store",
        versions.operations,
        None,
        "nothing has to be done where the clock was set back and versions were pruned since; else look for who writes"
        " to the database past memfs",
    ),
    Invariant(
        "heads",
        "a memory is what its newest version says",
        live.heads,
        live.repair_heads,
        "look at the memory's history: 'memfs version list STORE --memory ID'",
    ),
    Invariant("references", "what rows refer to is there", relations.references, relations.repair_references, _RESTORE),
    Invariant(
        "orphans",
        "each text is a version's",
        versions.orphans,
        versions.repair_orphans,
        "it may be the text that a version has lost: see what is said of those",
    ),
    Invariant(
        "sequence", "each version is a change, no number is used twice", relations.sequence, relations.repair_sequence
    ),
    Invariant(
        "paths", "paths obey the rules", places.paths, None, "move the memory: 'memfs memory update STORE ID --path'"
    ),
    Invariant(
        "unique",
        "one memory is at a path",
        places.unique,
        None,
        "move one of them: 'memfs memory update STORE ID --path'",
    ),
    Invariant(
        "ancestors",
        "no memory lies below another",
        places.above,
        None,
        "move one of them: 'memfs memory update STORE ID --path'",
    ),
    Invariant("directories", "no kept directory is where a memory is", places.directories, places.repair_directories),
    Invariant(
        "limits",
        "nothing is over a limit",
        values.limits,
        None,
        "delete memories until the store is below it; a long text stays readable",
    ),
    Invariant("forms", "ids, times, JSON and keys can be read", values.forms, None, _RESTORE),
)
"""All of them, in the order in which repairs are made."""
