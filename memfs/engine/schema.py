"""The SQLite schema, as sqlite-utils migrations.

The comments stand inside the statements on purpose: SQLite keeps them, so that someone who opens the file with
sqlite-utils or Datasette reads what each column means.
"""

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

APPLICATION_ID = 0x6D656D66
"""``memf``: marks a file as ours (PRAGMA application_id)."""

TABLES = (
    "workspace",
    "memory_stores",
    "memories",
    "memory_versions",
    "merges",
    "contents",
    "changes",
    "memory_accesses",
    "kept_directories",
    "sessions",
    "session_attachments",
    "api_keys",
    "api_key_stores",
    "_sqlite_migrations",
)
"""All of them, of every format."""

migrations = Migrations("memfs")


@migrations(name="0001_workspace")
def workspace(db: Database) -> None:
    """Stores, memories, versions, contents, kept directories, sessions, the change sequence, and two views."""
    for statement in (
        """
        CREATE TABLE workspace (
            id TEXT PRIMARY KEY,       -- wrk_...; there is one row
            created_at TEXT NOT NULL   -- RFC 3339, UTC, like every ..._at
        )
        """,
        """
        CREATE TABLE memory_stores (
            id TEXT PRIMARY KEY,          -- memstore_...
            name TEXT NOT NULL,           -- not unique
            description TEXT NOT NULL,
            metadata TEXT NOT NULL,       -- JSON object of text to text
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,     -- of name, description, metadata or archiving; not of memories
            archived_at TEXT              -- null while the store can be changed
        )
        """,
        """
        CREATE TABLE contents (
            sha256 TEXT PRIMARY KEY,      -- of the bytes, hexadecimal; each distinct text is kept once
            size_bytes INTEGER NOT NULL,
            bytes BLOB NOT NULL           -- UTF-8; a BLOB because some tools end a TEXT at NUL
        )
        """,
        """
        CREATE TABLE changes (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT, -- rises by every change; what followers remember
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            subject TEXT NOT NULL CHECK (subject IN ('memory', 'directories', 'store')),
            memory_id TEXT                -- which memory changed, where subject is memory
        )
        """,
        """
        CREATE TABLE memory_versions (
            sequence INTEGER PRIMARY KEY, -- the change that made it
            id TEXT NOT NULL UNIQUE,      -- memver_...
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            memory_id TEXT NOT NULL,      -- mem_...; outlives the row in memories
            operation TEXT NOT NULL CHECK (operation IN ('created', 'modified', 'deleted')),
            path TEXT,                    -- null when redacted
            content_size_bytes INTEGER,   -- null when deleted or redacted
            content_sha256 TEXT REFERENCES contents (sha256), -- null when deleted or redacted
            created_at TEXT NOT NULL,
            created_by_type TEXT NOT NULL CHECK (
                created_by_type IN ('session_actor', 'api_actor', 'user_actor', 'service_account_actor')
            ),
            created_by_id TEXT NOT NULL,
            redacted_at TEXT,
            redacted_by_type TEXT,
            redacted_by_id TEXT
        )
        """,
        "CREATE INDEX memory_versions_of_store ON memory_versions (store_id, sequence)",
        "CREATE INDEX memory_versions_of_memory ON memory_versions (memory_id, sequence)",
        "CREATE INDEX memory_versions_of_content ON memory_versions (content_sha256)",
        """
        CREATE TABLE memories (
            id TEXT PRIMARY KEY,          -- mem_...; survives renames
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            path TEXT NOT NULL,           -- within the store, starts with /
            head_version_id TEXT NOT NULL REFERENCES memory_versions (id),
            content_sha256 TEXT NOT NULL REFERENCES contents (sha256), -- the head's, repeated for fast listings
            content_size_bytes INTEGER NOT NULL,
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,
            file_mode INTEGER,            -- permission bits set through a mount; null: the mount's default
            file_mtime_ns INTEGER,        -- modification time seen through mounts, ns; null: updated_at
            file_inode INTEGER,           -- inode number seen through mounts; null: derived from id
            UNIQUE (store_id, path)
        )
        """,
        "CREATE INDEX memories_of_content ON memories (content_sha256)",
        """
        CREATE TABLE kept_directories (
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            path TEXT NOT NULL,           -- a directory that exists even when no memory lies below it
            updated_at TEXT NOT NULL,
            file_mode INTEGER,
            file_mtime_ns INTEGER,
            file_inode INTEGER,
            PRIMARY KEY (store_id, path)
        )
        """,
        """
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY,          -- sesn_...
            created_at TEXT NOT NULL,
            ended_at TEXT
        )
        """,
        """
        CREATE TABLE session_attachments (
            session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            position INTEGER NOT NULL,    -- order of attachment, from 0
            store_id TEXT NOT NULL,
            access TEXT NOT NULL CHECK (access IN ('read_write', 'read_only')),
            store_name TEXT NOT NULL,     -- as it was at attachment
            store_description TEXT NOT NULL,
            mount_path TEXT NOT NULL,
            instructions TEXT NOT NULL,
            PRIMARY KEY (session_id, position)
        )
        """,
        """
        CREATE VIEW current_memories AS
        SELECT memory_stores.name AS store, memories.path, CAST(contents.bytes AS TEXT) AS text,
               memories.content_size_bytes AS size_bytes, memories.updated_at,
               memory_versions.created_by_type AS last_actor_type, memory_versions.created_by_id AS last_actor_id,
               memories.id AS memory_id, memories.head_version_id, memories.store_id
        FROM memories
        JOIN memory_stores ON memory_stores.id = memories.store_id
        JOIN memory_versions ON memory_versions.id = memories.head_version_id
        JOIN contents ON contents.sha256 = memories.content_sha256
        ORDER BY memory_stores.name, memories.path
        """,
        """
        CREATE VIEW history AS
        SELECT memory_versions.created_at, memory_stores.name AS store, memory_versions.path,
               memory_versions.operation, memory_versions.created_by_type AS actor_type,
               memory_versions.created_by_id AS actor_id, memory_versions.content_size_bytes AS size_bytes,
               CAST(contents.bytes AS TEXT) AS text, memory_versions.redacted_at,
               memory_versions.id AS version_id, memory_versions.memory_id, memory_versions.store_id
        FROM memory_versions
        JOIN memory_stores ON memory_stores.id = memory_versions.store_id
        LEFT JOIN contents ON contents.sha256 = memory_versions.content_sha256
        ORDER BY memory_versions.sequence DESC
        """,
    ):
        db.execute(statement)


@migrations(name="0002_upkeep")
def upkeep(db: Database) -> None:
    """Guards, retention, when memories were read, and whether something has to be scrubbed out of the file.

    Contents get a number, which versions and memories refer to: an index of a million hashes is too large to stay in
    the cache. So three tables are made anew (foreign keys are not enforced meanwhile, see ``opening.prepare``). SQLite
    drops a comment at the end of an added column, so those stand within.
    """
    for statement in (
        "DROP VIEW current_memories",
        "DROP VIEW history",
        """
        ALTER TABLE memory_stores ADD COLUMN
            guards TEXT /* JSON: secrets, personal_data, max_content_bytes, allowed_paths */ NOT NULL DEFAULT '{}'
        """,
        """
        ALTER TABLE workspace ADD COLUMN
            retention_days INTEGER /* versions older than this may be pruned */ NOT NULL DEFAULT 30
        """,
        """
        ALTER TABLE workspace ADD COLUMN
            prune_automatically INTEGER /* 1: they are, once a day */ NOT NULL DEFAULT 0
        """,
        "ALTER TABLE workspace ADD COLUMN pruned_at /* the last time that this happened */ TEXT",
        """
        ALTER TABLE workspace ADD COLUMN
            scrubs_wanted INTEGER /* how often something was redacted or a store deleted */ NOT NULL DEFAULT 0
        """,
        """
        ALTER TABLE workspace ADD COLUMN
            scrubs_done INTEGER /* less than wanted: that may still be in free pages or the WAL */ NOT NULL DEFAULT 0
        """,
        """
        CREATE TABLE new_contents (
            id INTEGER PRIMARY KEY,
            sha256 TEXT NOT NULL UNIQUE,  -- of the bytes, hexadecimal; each distinct text is kept once
            size_bytes INTEGER NOT NULL,
            bytes BLOB NOT NULL           -- UTF-8; a BLOB because some tools end a TEXT at NUL
        )
        """,
        "INSERT INTO new_contents (sha256, size_bytes, bytes) SELECT sha256, size_bytes, bytes FROM contents",
        """
        CREATE TABLE new_memory_versions (
            sequence INTEGER PRIMARY KEY, -- the change that made it
            id TEXT NOT NULL UNIQUE,      -- memver_...
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            memory_id TEXT NOT NULL,      -- mem_...; outlives the row in memories
            operation TEXT NOT NULL CHECK (operation IN ('created', 'modified', 'deleted')),
            path TEXT,                    -- null when redacted
            content_size_bytes INTEGER,   -- null when deleted or redacted
            content_sha256 TEXT,          -- null when deleted or redacted
            content_id INTEGER REFERENCES contents (id), -- null when deleted or redacted
            created_at TEXT NOT NULL,
            created_by_type TEXT NOT NULL CHECK (
                created_by_type IN ('session_actor', 'api_actor', 'user_actor', 'service_account_actor')
            ),
            created_by_id TEXT NOT NULL,
            redacted_at TEXT,
            redacted_by_type TEXT,
            redacted_by_id TEXT
        )
        """,
        """
        INSERT INTO new_memory_versions
        SELECT sequence, old.id, store_id, memory_id, operation, path, content_size_bytes, content_sha256,
               new_contents.id, created_at, created_by_type, created_by_id, redacted_at, redacted_by_type,
               redacted_by_id
        FROM memory_versions AS old LEFT JOIN new_contents ON sha256 = content_sha256 ORDER BY sequence
        """,
        """
        CREATE TABLE new_memories (
            id TEXT PRIMARY KEY,          -- mem_...; survives renames
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            path TEXT NOT NULL,           -- within the store, starts with /
            head_version_id TEXT NOT NULL REFERENCES memory_versions (id),
            content_sha256 TEXT NOT NULL, -- the head's, repeated for fast listings
            content_size_bytes INTEGER NOT NULL,
            content_id INTEGER NOT NULL REFERENCES contents (id),
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,
            file_mode INTEGER,            -- permission bits set through a mount; null: the mount's default
            file_mtime_ns INTEGER,        -- modification time seen through mounts, ns; null: updated_at
            file_inode INTEGER,           -- inode number seen through mounts; null: derived from id
            UNIQUE (store_id, path)
        )
        """,
        """
        INSERT INTO new_memories
        SELECT old.id, store_id, path, head_version_id, content_sha256, content_size_bytes, new_contents.id,
               created_at, updated_at, file_mode, file_mtime_ns, file_inode
        FROM memories AS old JOIN new_contents ON sha256 = content_sha256
        """,
        "DROP TABLE memories",
        "DROP TABLE memory_versions",
        "DROP TABLE contents",
        "ALTER TABLE new_contents RENAME TO contents",
        "ALTER TABLE new_memory_versions RENAME TO memory_versions",
        "ALTER TABLE new_memories RENAME TO memories",
        "CREATE INDEX memory_versions_of_store ON memory_versions (store_id, sequence)",
        "CREATE INDEX memory_versions_of_memory ON memory_versions (memory_id, sequence)",
        "CREATE INDEX memory_versions_of_content ON memory_versions (content_id)",
        # Who wrote what: a session's few versions among a million others.
        "CREATE INDEX memory_versions_of_actor ON memory_versions (store_id, created_by_id, sequence)",
        "CREATE INDEX memories_of_content ON memories (content_id)",
        # A head is read by its version; and a version that is pruned is looked for among the heads (foreign key).
        "CREATE INDEX memories_of_head ON memories (head_version_id)",
        """
        CREATE TABLE memory_accesses (
            memory_id TEXT PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
            accessed_at TEXT NOT NULL     -- when the text was last read, to within an hour
        ) WITHOUT ROWID
        """,
        """
        CREATE VIEW current_memories AS
        SELECT memory_stores.name AS store, memories.path, CAST(contents.bytes AS TEXT) AS text,
               memories.content_size_bytes AS size_bytes, memories.updated_at,
               memory_versions.created_by_type AS last_actor_type, memory_versions.created_by_id AS last_actor_id,
               memories.id AS memory_id, memories.head_version_id, memories.store_id
        FROM memories
        JOIN memory_stores ON memory_stores.id = memories.store_id
        JOIN memory_versions ON memory_versions.id = memories.head_version_id
        JOIN contents ON contents.id = memories.content_id
        ORDER BY memory_stores.name, memories.path
        """,
        """
        CREATE VIEW history AS
        SELECT memory_versions.created_at, memory_stores.name AS store, memory_versions.path,
               memory_versions.operation, memory_versions.created_by_type AS actor_type,
               memory_versions.created_by_id AS actor_id, memory_versions.content_size_bytes AS size_bytes,
               CAST(contents.bytes AS TEXT) AS text, memory_versions.redacted_at,
               memory_versions.id AS version_id, memory_versions.memory_id, memory_versions.store_id
        FROM memory_versions
        JOIN memory_stores ON memory_stores.id = memory_versions.store_id
        LEFT JOIN contents ON contents.id = memory_versions.content_id
        ORDER BY memory_versions.sequence DESC
        """,
    ):
        db.execute(statement)


@migrations(name="0003_api")
def api(db: Database) -> None:
    """Keys for the HTTP API, and what whoever begins a session says about it."""
    for statement in (
        "ALTER TABLE sessions ADD COLUMN archived_at /* nothing can be mounted for it any more */ TEXT",
        "ALTER TABLE sessions ADD COLUMN title /* as whoever began it called it */ TEXT",
        "ALTER TABLE sessions ADD COLUMN metadata /* JSON object of text to text */ TEXT NOT NULL DEFAULT '{}'",
        "ALTER TABLE sessions ADD COLUMN agent_id /* what whoever began it calls the agent */ TEXT",
        "ALTER TABLE sessions ADD COLUMN agent_version /* and which of its versions */ INTEGER",
        "ALTER TABLE sessions ADD COLUMN environment_id /* and its environment */ TEXT",
        "CREATE INDEX sessions_by_time ON sessions (created_at, id)",
        # Which sessions have a store.
        "CREATE INDEX session_attachments_of_store ON session_attachments (store_id, session_id)",
        """
        CREATE TABLE api_keys (
            id TEXT PRIMARY KEY,          -- apikey_...
            name TEXT NOT NULL,           -- for people
            secret_sha256 TEXT NOT NULL,  -- of the secret, which is 256 random bits and nowhere
            access TEXT NOT NULL CHECK (access IN ('read_write', 'read_only')),
            all_stores INTEGER NOT NULL,  -- 0: those in api_key_stores alone, also when none of them is left
            created_at TEXT NOT NULL,
            expires_at TEXT,
            revoked_at TEXT,
            last_used_at TEXT             -- to within a few minutes
        )
        """,
        """
        CREATE TABLE api_key_stores (
            key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            PRIMARY KEY (key_id, store_id)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX api_key_stores_of_store ON api_key_stores (store_id)",
    ):
        db.execute(statement)


@migrations(name="0004_merges")
def merges(db: Database) -> None:
    """Where a version came about by two writers at once, and what an attachment wants done then."""
    for statement in (
        """
        CREATE TABLE merges (
            sequence INTEGER PRIMARY KEY REFERENCES memory_versions (sequence) ON DELETE CASCADE, -- the one it made
            base_version_id TEXT,         -- which version its writer had started from, not the one before; null: none
            conflict INTEGER NOT NULL     -- 1: both had changed the same lines, and those of the version before went
        )
        """,
        "CREATE INDEX merges_with_conflict ON merges (sequence) WHERE conflict",
        """
        ALTER TABLE session_attachments ADD COLUMN
            on_conflict TEXT /* merge, overwrite or fail, where the memory changed since it was read */
            NOT NULL DEFAULT 'merge' CHECK (on_conflict IN ('merge', 'overwrite', 'fail'))
        """,
    ):
        db.execute(statement)
