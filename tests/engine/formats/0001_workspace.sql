PRAGMA application_id = 0x6D656D66;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'memfs','0001_workspace','2026-11-30 20:19:08.752409+00:00');
CREATE TABLE changes (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT, -- rises by every change; what followers remember
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            subject TEXT NOT NULL CHECK (subject IN ('memory', 'directories', 'store')),
            memory_id TEXT                -- which memory changed, where subject is memory
        );
INSERT INTO "changes" VALUES(1,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','memory','mem_01M8Q1RZBQE40SCP1B0CGDBD8X');
INSERT INTO "changes" VALUES(2,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','memory','mem_01M8Q1RZBQQCAM3HQBT4D3R23A');
INSERT INTO "changes" VALUES(3,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','memory','mem_01M8Q1RZBQE40SCP1B0CGDBD8X');
INSERT INTO "changes" VALUES(4,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','memory','mem_01M8Q1RZBQE40SCP1B0CGDBD8X');
INSERT INTO "changes" VALUES(5,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','memory','mem_01M8Q1RZBQQCAM3HQBT4D3R23A');
INSERT INTO "changes" VALUES(6,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','memory','mem_01M8Q1RZBQZSH6KJ9ZNDHS0H7K');
INSERT INTO "changes" VALUES(7,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','directories',NULL);
CREATE TABLE contents (
            sha256 TEXT PRIMARY KEY,      -- of the bytes, hexadecimal; each distinct text is kept once
            size_bytes INTEGER NOT NULL,
            bytes BLOB NOT NULL           -- UTF-8; a BLOB because some tools end a TEXT at NUL
        );
INSERT INTO "contents" VALUES('ffe492a7b661bf203d73d8e8ab59cc46f8ec2e6373c803714fecbd0827344e29',12,X'496E7374616C6C2069742E0A');
INSERT INTO "contents" VALUES('94a6ff1d79136f2676bbb9df37afa75c1f5ee97a5381c7faf16ef77a1f669c9b',11,X'536F6F6E20676F6E652E0A');
INSERT INTO "contents" VALUES('c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2',27,X'496E7374616C6C2069742E0A5468656E206D6F756E742069742E0A');
INSERT INTO "contents" VALUES('b1de61b8108f15d9913e0fa2e6371ed737fbe2be84e63a89ca8ae7a370322371',8,X'4772C3BCC39F650A');
CREATE TABLE kept_directories (
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            path TEXT NOT NULL,           -- a directory that exists even when no memory lies below it
            updated_at TEXT NOT NULL,
            file_mode INTEGER,
            file_mtime_ns INTEGER,
            file_inode INTEGER,
            PRIMARY KEY (store_id, path)
        );
INSERT INTO "kept_directories" VALUES('memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','/empty/inside','2026-11-30T20:19:08.806943Z',NULL,NULL,NULL);
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
        );
INSERT INTO "memories" VALUES('mem_01M8Q1RZBQE40SCP1B0CGDBD8X','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','/guide/install.md','memver_01M8Q1RZBSZ9M8W12EQG6BCXC1','c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2',27,'2026-11-30T20:19:08.792243Z','2026-11-30T20:19:08.793814Z',NULL,NULL,NULL);
INSERT INTO "memories" VALUES('mem_01M8Q1RZBQZSH6KJ9ZNDHS0H7K','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','/ünïcode.md','memver_01M8Q1RZC6VYAYPMJQNNJE6FHQ','b1de61b8108f15d9913e0fa2e6371ed737fbe2be84e63a89ca8ae7a370322371',8,'2026-11-30T20:19:08.806297Z','2026-11-30T20:19:08.806297Z',NULL,NULL,NULL);
CREATE TABLE memory_stores (
            id TEXT PRIMARY KEY,          -- memstore_...
            name TEXT NOT NULL,           -- not unique
            description TEXT NOT NULL,
            metadata TEXT NOT NULL,       -- JSON object of text to text
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,     -- of name, description, metadata or archiving; not of memories
            archived_at TEXT              -- null while the store can be changed
        );
INSERT INTO "memory_stores" VALUES('memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','Project notes','What we learnt','{"team": "platform"}','2026-11-30T20:19:08.791269Z','2026-11-30T20:19:08.791269Z',NULL);
INSERT INTO "memory_stores" VALUES('memstore_01M8Q1RZBQD7ZBH3XGESHZ2DF5','Empty','','{}','2026-11-30T20:19:08.791740Z','2026-11-30T20:19:08.791740Z',NULL);
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
        );
INSERT INTO "memory_versions" VALUES(1,'memver_01M8Q1RZBR2YBJEYWFYV0V9RZ8','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','mem_01M8Q1RZBQE40SCP1B0CGDBD8X','created','/guide/setup.md',12,'ffe492a7b661bf203d73d8e8ab59cc46f8ec2e6373c803714fecbd0827344e29','2026-11-30T20:19:08.792243Z','user_actor','ada',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(2,'memver_01M8Q1RZBS5T21CW1VH7K4FKS1','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','mem_01M8Q1RZBQQCAM3HQBT4D3R23A','created','/gone.md',11,'94a6ff1d79136f2676bbb9df37afa75c1f5ee97a5381c7faf16ef77a1f669c9b','2026-11-30T20:19:08.793238Z','user_actor','ada',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(3,'memver_01M8Q1RZBSBW7ZDJSF3VWGPG31','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','mem_01M8Q1RZBQE40SCP1B0CGDBD8X','modified','/guide/setup.md',27,'c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2','2026-11-30T20:19:08.793484Z','session_actor','sesn_01M8Q1RZBQE40RXC6XADQ4WFDY',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(4,'memver_01M8Q1RZBSZ9M8W12EQG6BCXC1','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','mem_01M8Q1RZBQE40SCP1B0CGDBD8X','modified','/guide/install.md',27,'c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2','2026-11-30T20:19:08.793814Z','user_actor','ada',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(5,'memver_01M8Q1RZBT36GDVQN3ET0K7N8P','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','mem_01M8Q1RZBQQCAM3HQBT4D3R23A','deleted','/gone.md',NULL,NULL,'2026-11-30T20:19:08.794016Z','session_actor','sesn_01M8Q1RZBQE40RXC6XADQ4WFDY',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(6,'memver_01M8Q1RZC6VYAYPMJQNNJE6FHQ','memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','mem_01M8Q1RZBQZSH6KJ9ZNDHS0H7K','created','/ünïcode.md',8,'b1de61b8108f15d9913e0fa2e6371ed737fbe2be84e63a89ca8ae7a370322371','2026-11-30T20:19:08.806297Z','user_actor','ada',NULL,NULL,NULL);
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
        );
INSERT INTO "session_attachments" VALUES('sesn_01M8Q1RZBQE40RXC6XADQ4WFDY',0,'memstore_01M8Q1RZBQA4ZZP2QANN8F3YZW','read_write','Project notes','What we learnt','/mnt/memory/project-notes','');
CREATE TABLE sessions (
            id TEXT PRIMARY KEY,          -- sesn_...
            created_at TEXT NOT NULL,
            ended_at TEXT
        );
INSERT INTO "sessions" VALUES('sesn_01M8Q1RZBQE40RXC6XADQ4WFDY','2026-11-30T20:19:08.791847Z','2026-11-30T20:19:08.807368Z');
CREATE TABLE workspace (
            id TEXT PRIMARY KEY,       -- wrk_...; there is one row
            created_at TEXT NOT NULL   -- RFC 3339, UTC, like every ..._at
        );
INSERT INTO "workspace" VALUES('wrk_01M8Q1RZAGD4ZZ0E35TVJZ4WY1','2026-11-30T20:19:08.752599Z');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX memory_versions_of_store ON memory_versions (store_id, sequence);
CREATE INDEX memory_versions_of_memory ON memory_versions (memory_id, sequence);
CREATE INDEX memory_versions_of_content ON memory_versions (content_sha256);
CREATE INDEX memories_of_content ON memories (content_sha256);
CREATE VIEW current_memories AS
        SELECT memory_stores.name AS store, memories.path, CAST(contents.bytes AS TEXT) AS text,
               memories.content_size_bytes AS size_bytes, memories.updated_at,
               memory_versions.created_by_type AS last_actor_type, memory_versions.created_by_id AS last_actor_id,
               memories.id AS memory_id, memories.head_version_id, memories.store_id
        FROM memories
        JOIN memory_stores ON memory_stores.id = memories.store_id
        JOIN memory_versions ON memory_versions.id = memories.head_version_id
        JOIN contents ON contents.sha256 = memories.content_sha256
        ORDER BY memory_stores.name, memories.path;
CREATE VIEW history AS
        SELECT memory_versions.created_at, memory_stores.name AS store, memory_versions.path,
               memory_versions.operation, memory_versions.created_by_type AS actor_type,
               memory_versions.created_by_id AS actor_id, memory_versions.content_size_bytes AS size_bytes,
               CAST(contents.bytes AS TEXT) AS text, memory_versions.redacted_at,
               memory_versions.id AS version_id, memory_versions.memory_id, memory_versions.store_id
        FROM memory_versions
        JOIN memory_stores ON memory_stores.id = memory_versions.store_id
        LEFT JOIN contents ON contents.sha256 = memory_versions.content_sha256
        ORDER BY memory_versions.sequence DESC;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('changes',7);
COMMIT;
