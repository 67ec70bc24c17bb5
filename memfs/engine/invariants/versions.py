"""The history: versions and their texts."""

import sqlite3
from collections.abc import Iterator
from hashlib import sha256

from memfs.engine.damage import shown
from memfs.engine.invariants.invariant import ROWS_A_TIME, Told, quiet
from memfs.model.findings import Violation

_KEEPS_TEXT = "v.operation != 'deleted' AND v.redacted_at IS NULL"
_WRONG_TEXTS = f"""
FROM memory_versions AS v LEFT JOIN contents AS c ON c.id = v.content_id
WHERE {_KEEPS_TEXT} AND (c.id IS NULL OR c.sha256 IS NOT v.content_sha256 OR c.size_bytes IS NOT v.content_size_bytes)
"""


def texts(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """A version that is neither a deletion nor redacted has a text, with the hash and the size that it tells of."""
    for store_id, memory_id, version_id, path, other, there in db.execute(
        "SELECT v.store_id, v.memory_id, v.id, v.path, c.id IS NULL OR c.sha256 IS NOT v.content_sha256,"
        f" v.content_sha256 IN (SELECT sha256 FROM contents) {_WRONG_TEXTS}"
    ):
        found, repair = "the version tells another size than its text has", "takes the size of the text"
        if other:
            found = "the version's text is not there, or another one than its hash tells"
            repair = "refers to the text with this hash again" if there else ""
        yield Violation("texts", found, store_id, memory_id, version_id, path, repair)


def repair_texts(db: sqlite3.Connection) -> None:
    """Refer to the text with the hash that a version tells, and take the size of a text from it."""
    db.execute(
        "UPDATE memory_versions SET content_id = (SELECT id FROM contents WHERE sha256 = content_sha256)"
        f" WHERE sequence IN (SELECT v.sequence {_WRONG_TEXTS})"
        " AND content_sha256 IN (SELECT sha256 FROM contents)"
    )
    for number, digest, text in db.execute(
        "SELECT id, sha256, bytes FROM contents WHERE size_bytes IS NOT length(bytes)"
    ).fetchall():
        if isinstance(text, bytes) and isinstance(digest, str) and sha256(text).hexdigest() == digest:
            db.execute("UPDATE contents SET size_bytes = ? WHERE id = ?", (len(text), number))
    db.execute(
        "UPDATE memory_versions SET content_size_bytes = (SELECT size_bytes FROM contents WHERE id = content_id)"
        f" WHERE sequence IN (SELECT v.sequence {_WRONG_TEXTS})"
        " AND content_sha256 = (SELECT sha256 FROM contents WHERE id = content_id)"
    )


def hashes(db: sqlite3.Connection, told: Told = quiet) -> Iterator[Violation]:
    """A text is UTF-8, and has the hash and the size by which it is known."""
    (total,) = db.execute("SELECT count(*) FROM contents").fetchone()
    rows = db.execute("SELECT id, sha256, size_bytes, bytes FROM contents")
    for done, (number, digest, size, text) in enumerate(rows):
        if done % ROWS_A_TIME == 0:
            told(done, total)
        found, repair = _judged(digest, size, text)
        if not found:
            continue
        where = db.execute(
            "SELECT store_id, memory_id, id, path FROM memory_versions WHERE content_id = ?", (number,)
        ).fetchall()
        for store_id, memory_id, version_id, path in where or [(None, None, None, None)]:
            yield Violation("hashes", found, store_id, memory_id, version_id, path, repair)


def _judged(digest: object, size: object, text: object) -> tuple[str, str]:
    """What is wrong with a text, and what a repair does; empty where nothing is."""
    if not isinstance(text, bytes):
        return "the text is not stored as bytes", ""
    found = sha256(text).hexdigest()
    if not isinstance(digest, str) or digest != found:
        return f"the text has the hash {found}, not {shown(digest)}: it was changed", ""
    if not isinstance(size, int) or size != len(text):
        return f"the text has {len(text)} bytes, not {shown(size)}", "takes the size of the text"
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"the text is not UTF-8 at byte {error.start}", ""
    return "", ""


def states(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """A deletion has no text; a redacted version has neither text nor path, and says when and by whom; others have a
    path."""
    for store_id, memory_id, version_id, path, redacted, repairable in db.execute(
        f"""
        SELECT store_id, memory_id, id, path, redacted_at IS NOT NULL,
               {_NOT_EMPTIED} AND redacted_by_type IS NOT NULL AND redacted_by_id IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM memories WHERE head_version_id = v.id)
        FROM memory_versions AS v
        WHERE CASE
            WHEN redacted_at IS NOT NULL THEN {_NOT_EMPTIED} OR redacted_by_type IS NULL OR redacted_by_id IS NULL
            ELSE path IS NULL OR redacted_by_type IS NOT NULL OR redacted_by_id IS NOT NULL
                OR operation = 'deleted' AND coalesce(content_size_bytes, content_sha256, content_id) IS NOT NULL
        END
        """
    ):
        if redacted:
            repair = "takes out what the redaction left" if repairable else ""
            found = "the version is redacted, but has a path or a text, or does not say by whom"
        else:
            found, repair = "the version has what it should not have, or no path", ""
        yield Violation("states", found, store_id, memory_id, version_id, path, repair)


_NOT_EMPTIED = "coalesce(path, content_size_bytes, content_sha256, content_id) IS NOT NULL"


def repair_states(db: sqlite3.Connection) -> None:
    """Take out what a redaction left."""
    emptied = db.execute(
        "UPDATE memory_versions SET path = NULL, content_size_bytes = NULL, content_sha256 = NULL, content_id = NULL"
        f" WHERE redacted_at IS NOT NULL AND {_NOT_EMPTIED} AND id NOT IN (SELECT head_version_id FROM memories)"
    )
    if emptied.rowcount:
        _want_scrub(db)


def operations(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """A memory is created first and after a deletion only, and stays in its store; its oldest versions may be gone."""
    for store_id, memory_id, version_id, path, operation, before, moved in db.execute(
        """
        SELECT store_id, memory_id, id, path, operation, before, moved FROM (
            SELECT *, lag(operation) OVER life AS before, lag(store_id) OVER life IS NOT store_id AS moved
            FROM memory_versions WINDOW life AS (PARTITION BY memory_id ORDER BY sequence)
        )
        WHERE before IS NOT NULL AND ((operation = 'created') != (before = 'deleted') OR moved)
        """
    ):
        found = (
            "the version before it is of another store"
            if moved
            else f"{shown(operation)} cannot follow {shown(before)}"
        )
        yield Violation("operations", found, store_id, memory_id, version_id, path)


def orphans(db: sqlite3.Connection, _told: Told = quiet) -> Iterator[Violation]:
    """Every text is a version's."""
    repair = "" if _texts_missing(db) else "takes it out of the database"
    for digest, size in db.execute(f"SELECT sha256, size_bytes {_ORPHANS}"):
        yield Violation("orphans", f"no version has the text {shown(digest)} ({shown(size)} bytes)", repair=repair)


_ORPHANS = """
FROM contents WHERE NOT EXISTS (SELECT 1 FROM memory_versions WHERE content_id = contents.id)
AND NOT EXISTS (SELECT 1 FROM memories WHERE content_id = contents.id)
"""


def _texts_missing(db: sqlite3.Connection) -> bool:
    """Whether a version has lost its text for good: what no version has may be it."""
    row = db.execute(
        f"SELECT 1 {_WRONG_TEXTS} AND (v.content_sha256 IS NULL OR v.content_sha256 NOT IN"
        " (SELECT sha256 FROM contents)) LIMIT 1"
    ).fetchone()
    return row is not None


def repair_orphans(db: sqlite3.Connection) -> None:
    """Take out the texts that no version has, unless one may be a text that a version has lost."""
    if not _texts_missing(db) and db.execute(f"DELETE FROM contents WHERE id IN (SELECT id {_ORPHANS})").rowcount:
        _want_scrub(db)


def _want_scrub(db: sqlite3.Connection) -> None:
    db.execute("UPDATE workspace SET scrubs_wanted = scrubs_wanted + 1")
