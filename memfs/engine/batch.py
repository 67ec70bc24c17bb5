"""One batch of mutations inside one transaction."""

import sqlite3
from collections.abc import Sequence
from hashlib import sha256

from memfs.engine.damage import DamagedRow, named, text
from memfs.engine.protocol import Limits, Rebase
from memfs.engine.rows import Row, head_of, keep_content, last_sequence, record_change
from memfs.model import ids
from memfs.model.errors import NotFound, PathConflict, PreconditionFailed, StoreFull
from memfs.model.mutations import (
    KEEP,
    Applied,
    Create,
    Delete,
    DropDirectory,
    KeepDirectory,
    MoveDirectory,
    Mutation,
    SetAttributes,
    Update,
)
from memfs.model.paths import ancestors, check_path, subtree_range
from memfs.model.records import Actor, FileAttributes, Head, Operation, now


class Batch:
    """One batch of mutations inside one transaction.

    The paths of everything that moves or goes are freed first and the new ones checked and taken afterwards, so that
    the order of the mutations does not matter and names can be exchanged.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        store_id: str,
        mutations: Sequence[Mutation],
        actor: Actor,
        limits: Limits,
        rebase: Rebase | None = None,
    ) -> None:
        self.db = db
        self.store_id = store_id
        self.actor = actor
        self.limits = limits
        self.rebase = rebase
        self.rebased: set[str] = set()
        self.moment = now()
        self.heads: dict[str, Head | None] = {}
        self.creates = [m for m in mutations if isinstance(m, Create)]
        self.updates = [m for m in mutations if isinstance(m, Update)]
        self.deletes = [m for m in mutations if isinstance(m, Delete)]
        self.directories = [m for m in mutations if isinstance(m, KeepDirectory | DropDirectory)]
        self.moves = [m for m in mutations if isinstance(m, MoveDirectory)]
        self.attributes = [m for m in mutations if isinstance(m, SetAttributes)]
        self.last_version_id: str | None = None
        self.changes = 0

    def _change(self, subject: str, memory_id: str | None = None) -> int:
        self.changes += 1
        return record_change(self.db, self.store_id, subject, memory_id)

    def run(self) -> Applied:
        affected: list[Update | Delete] = [*self.updates, *self.deletes]
        current = {mutation.memory_id: self._expected(mutation) for mutation in affected}
        self.updates = [self._rebased(update, current[update.memory_id]) for update in self.updates]
        for delete in self.deletes:
            self._delete(delete, current[delete.memory_id])
        for update in self.updates:
            if update.path is not None and update.path != current[update.memory_id].path:
                # Any text without a leading slash is outside of every path; the memory's own id is unique.
                self.db.execute("UPDATE memories SET path = id WHERE id = ?", (update.memory_id,))
        self._move_directories()
        for directory in self.directories:
            if isinstance(directory, DropDirectory):
                self.db.execute(
                    "DELETE FROM kept_directories WHERE store_id = ? AND path = ?", (self.store_id, directory.path)
                )
        for update in self.updates:
            self._update(update, current[update.memory_id])
        if self.creates:
            self._check_room()
        for create in self.creates:
            self._create(create)
        for directory in self.directories:
            if isinstance(directory, KeepDirectory):
                self._keep(directory)
        if self.directories or self.moves:
            self._change("directories")
        for change in self.attributes:
            self._set_attributes(change.memory_id, change.attributes)
        # What is written under the writer lock gets consecutive numbers, so the count tells where it began.
        sequence = last_sequence(self.db)
        return Applied(sequence - self.changes, sequence, self.heads, frozenset(self.rebased))

    def _expected(self, mutation: Update | Delete) -> Head:
        head = head_of(self.db, mutation.memory_id, self.store_id)
        if head is None:
            raise NotFound(f"the store {self.store_id} has no memory {mutation.memory_id}")
        if mutation.expected_path not in (None, head.path):
            raise NotFound(f"the memory {mutation.memory_id} is at {head.path}, not at {mutation.expected_path}")
        if mutation.expected_version is not None and mutation.expected_version != head.version_id:
            raise PreconditionFailed(
                f"{head.path} is at version {head.version_id}, not at {mutation.expected_version}: read it again"
            )
        if mutation.expected_sha256 is not None and mutation.expected_sha256 != head.sha256:
            # Whoever asks again after a lost answer; without a content there is no wanted one.
            wanted = (
                isinstance(mutation, Update)
                and mutation.content is not None
                and sha256(mutation.content).hexdigest() == head.sha256
                and mutation.path in (None, head.path)
            )
            if not wanted:
                raise PreconditionFailed(
                    f"{head.path} has the hash {head.sha256}, not {mutation.expected_sha256}: read it again"
                )
        return head

    def _rebased(self, update: Update, head: Head) -> Update:
        edit = update.edit
        if edit is None or self.rebase is None or edit.base_sha256 == head.sha256:
            return update
        theirs = self._text("content_id FROM memories WHERE id = ?", head.memory_id)
        assert theirs is not None
        base = edit.base_text
        if base is None and edit.base_version_id is not None:
            base = self._text("content_id FROM memory_versions WHERE id = ?", edit.base_version_id)
        rebased = self.rebase(update, theirs, base)
        if rebased.content != update.content:
            self.rebased.add(update.memory_id)
        return rebased

    def _text(self, where: str, value: str) -> bytes | None:
        row = self.db.execute(f"SELECT bytes FROM contents WHERE id = (SELECT {where})", (value,)).fetchone()
        return None if row is None else text(row[0], value)

    def _check_room(self) -> None:
        if len(self.creates) <= len(self.deletes):
            return
        (count,) = self.db.execute("SELECT count(*) FROM memories WHERE store_id = ?", (self.store_id,)).fetchone()
        if count + len(self.creates) > self.limits.memories:
            raise StoreFull(
                f"the store {self.store_id} holds {count} of {self.limits.memories} memories: delete some,"
                " or use another store"
            )

    def _take_path(self, memory_id: str, path: str) -> None:
        """Check that a memory may be at ``path``; a kept directory that nothing lies in gives way."""
        above = ancestors(path)
        marks = ", ".join("?" * (len(above) + 1))
        below, beyond = subtree_range(path)
        row = self.db.execute(
            f"SELECT id, path FROM memories WHERE store_id = ? AND path IN ({marks})"
            " UNION ALL SELECT * FROM"
            " (SELECT id, path FROM memories WHERE store_id = ? AND path >= ? AND path < ? LIMIT 1)",
            (self.store_id, path, *above, self.store_id, below, beyond),
        ).fetchone()
        if row is not None and row[0] != memory_id:
            relation = "is used by" if row[1] == path else "lies above or below"
            raise PathConflict(
                f"the path {path} {relation} the memory {row[0]} at {row[1]}: choose another",
                conflicting_memory_id=row[0],
                conflicting_path=row[1],
            )
        dropped = self.db.execute(
            "DELETE FROM kept_directories WHERE store_id = ? AND (path = ? OR path >= ? AND path < ?)",
            (self.store_id, path, below, beyond),
        )
        if dropped.rowcount:
            self._change("directories")

    def _record(
        self,
        memory_id: str,
        operation: Operation,
        path: str,
        size: int | None = None,
        digest: str | None = None,
        content_id: int | None = None,
    ) -> str:
        """Add a version; returns its id."""
        if self.last_version_id is None:
            row = self.db.execute("SELECT id FROM memory_versions ORDER BY sequence DESC LIMIT 1").fetchone()
            self.last_version_id = None if row is None else _version_id(row[0])
        version_id = ids.new_id(ids.MEMORY_VERSION, after=self.last_version_id)
        self.last_version_id = version_id
        sequence = self._change("memory", memory_id)
        self.db.execute(
            "INSERT INTO memory_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            (
                sequence,
                version_id,
                self.store_id,
                memory_id,
                operation,
                path,
                size,
                digest,
                content_id,
                self.moment,
                self.actor.type,
                self.actor.id,
            ),
        )
        return version_id

    def _delete(self, delete: Delete, head: Head) -> None:
        self._record(delete.memory_id, "deleted", head.path)
        self.db.execute("DELETE FROM memories WHERE id = ?", (delete.memory_id,))
        self.heads[delete.memory_id] = None

    def _update(self, update: Update, head: Head) -> None:
        path = head.path if update.path is None else update.path
        digest, size = head.sha256, head.size
        if update.content is not None:
            digest, size = sha256(update.content).hexdigest(), len(update.content)
        attributes = _merged(head.attributes, update.attributes)
        if (path, digest) == (head.path, head.sha256):
            if attributes != head.attributes:
                self._set_attributes(update.memory_id, update.attributes)
            self.heads[update.memory_id] = head_of(self.db, update.memory_id)
            return
        if path != head.path:
            self._take_path(update.memory_id, path)
        if digest == head.sha256 and attributes.mtime_ns is None:
            # The text is as old as it was: the time of the version would not tell.
            attributes = FileAttributes(attributes.mode, head.mtime_ns(), attributes.inode)
        if update.content is None:
            (content_id,) = self.db.execute(
                "SELECT content_id FROM memories WHERE id = ?", (update.memory_id,)
            ).fetchone()
        else:
            content_id = keep_content(self.db, digest, update.content)
            if digest != head.sha256 and update.attributes.mtime_ns is None:
                attributes = FileAttributes(attributes.mode, None, attributes.inode)
        version_id = self._record(update.memory_id, "modified", path, size, digest, content_id)
        if update.merged is not None:
            self.db.execute(
                "INSERT INTO merges SELECT sequence, ?, ? FROM memory_versions WHERE id = ?",
                (update.merged.base_version_id, update.merged.conflict, version_id),
            )
        self.db.execute(
            "UPDATE memories SET path = ?, head_version_id = ?, content_sha256 = ?, content_size_bytes = ?,"
            " content_id = ?, updated_at = ?, file_mode = ?, file_mtime_ns = ?, file_inode = ? WHERE id = ?",
            (
                path,
                version_id,
                digest,
                size,
                content_id,
                self.moment,
                attributes.mode,
                attributes.mtime_ns,
                attributes.inode,
                update.memory_id,
            ),
        )
        self.heads[update.memory_id] = Head(update.memory_id, version_id, path, size, digest, self.moment, attributes)

    def _create(self, create: Create) -> None:
        self._take_path(create.memory_id, create.path)
        # One that is made again, with its id, is as old as it was.
        row = self.db.execute(
            "SELECT created_at FROM memory_versions WHERE memory_id = ? ORDER BY sequence LIMIT 1", (create.memory_id,)
        ).fetchone()
        size, digest = len(create.content), sha256(create.content).hexdigest()
        content_id = keep_content(self.db, digest, create.content)
        version_id = self._record(create.memory_id, "created", create.path, size, digest, content_id)
        attributes = create.attributes
        try:
            self.db.execute(
                "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    create.memory_id,
                    self.store_id,
                    create.path,
                    version_id,
                    digest,
                    size,
                    content_id,
                    self.moment if row is None else row[0],
                    self.moment,
                    attributes.mode,
                    attributes.mtime_ns,
                    attributes.inode,
                ),
            )
        except sqlite3.IntegrityError:
            raise PathConflict(
                f"the memory {create.memory_id} exists already",
                conflicting_memory_id=create.memory_id,
                conflicting_path=create.path,
            ) from None
        self.heads[create.memory_id] = Head(
            create.memory_id, version_id, create.path, size, digest, self.moment, attributes
        )

    def _set_attributes(self, memory_id: str, attributes: FileAttributes) -> None:
        changed = self.db.execute(
            "UPDATE memories SET file_mode = coalesce(?, file_mode), file_mtime_ns = coalesce(?, file_mtime_ns),"
            " file_inode = coalesce(?, file_inode) WHERE id = ? AND store_id = ?",
            (attributes.mode, attributes.mtime_ns, attributes.inode, memory_id, self.store_id),
        )
        if not changed.rowcount:
            raise NotFound(f"the store {self.store_id} has no memory {memory_id}")
        self._change("memory", memory_id)
        self.heads[memory_id] = head_of(self.db, memory_id)

    def _move_directories(self) -> None:
        """Move kept directories, all at once: what one move makes, another does not see."""
        moved: list[tuple[str, Row]] = []
        for move in self.moves:
            below, beyond = subtree_range(move.path)
            rows = self.db.execute(
                "SELECT path, updated_at, file_mode, file_mtime_ns, file_inode FROM kept_directories"
                " WHERE store_id = ? AND (path = ? OR path >= ? AND path < ?)",
                (self.store_id, move.path, below, beyond),
            ).fetchall()
            for row in rows:
                path = move.new_path + row[0][len(move.path) :]
                check_path(path)  # what lies below may get too deep or too long, which only the store knows
                moved.append((path, row))
        for _, row in moved:
            self.db.execute("DELETE FROM kept_directories WHERE store_id = ? AND path = ?", (self.store_id, row[0]))
        for path, row in moved:
            self._check_directory(path)
            self.db.execute(
                "INSERT OR REPLACE INTO kept_directories VALUES (?, ?, ?, ?, ?, ?)", (self.store_id, path, *row[1:])
            )

    def _check_directory(self, path: str) -> None:
        """Check that no memory is where a directory shall be, or above it."""
        above = ancestors(path)
        row = self.db.execute(
            f"SELECT id, path FROM memories WHERE store_id = ? AND path IN (?{', ?' * len(above)})",
            (self.store_id, path, *above),
        ).fetchone()
        if row is not None:
            raise PathConflict(
                f"{path} cannot be a directory: the memory {row[0]} is at {row[1]}",
                conflicting_memory_id=row[0],
                conflicting_path=row[1],
            )

    def _keep(self, directory: KeepDirectory) -> None:
        self._check_directory(directory.path)
        attributes = directory.attributes
        self.db.execute(
            "INSERT INTO kept_directories VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (store_id, path) DO UPDATE SET"
            " updated_at = excluded.updated_at, file_mode = coalesce(excluded.file_mode, file_mode),"
            " file_mtime_ns = coalesce(excluded.file_mtime_ns, file_mtime_ns),"
            " file_inode = coalesce(excluded.file_inode, file_inode)",
            (self.store_id, directory.path, self.moment, attributes.mode, attributes.mtime_ns, attributes.inode),
        )
        (count,) = self.db.execute(
            "SELECT count(*) FROM kept_directories WHERE store_id = ?", (self.store_id,)
        ).fetchone()
        if count > self.limits.directories:
            raise StoreFull(
                f"the store {self.store_id} keeps {self.limits.directories} directories for their own sake: remove some"
            )


def _version_id(value: object) -> str:
    if not isinstance(value, str) or not ids.is_id(value, ids.MEMORY_VERSION):
        raise DamagedRow(f"the newest version's id is {named(value)}")
    return value


def _merged(old: FileAttributes, new: FileAttributes) -> FileAttributes:
    if new is KEEP or new == KEEP:
        return old
    return FileAttributes(
        old.mode if new.mode is None else new.mode,
        old.mtime_ns if new.mtime_ns is None else new.mtime_ns,
        old.inode if new.inode is None else new.inode,
    )
