PRAGMA application_id = 0x6D656D66;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'memfs','0001_workspace','2026-11-30 20:19:10.675602+00:00');
INSERT INTO "_sqlite_migrations" VALUES(2,'memfs','0002_upkeep','2026-11-30 20:19:10.696296+00:00');
INSERT INTO "_sqlite_migrations" VALUES(3,'memfs','0003_api','2026-11-30 20:19:10.697954+00:00');
CREATE TABLE api_key_stores (
            key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            PRIMARY KEY (key_id, store_id)
        ) WITHOUT ROWID
        ;
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
        );
INSERT INTO "api_keys" VALUES('apikey_01M8Q1S183HZ4NQ92N6JNPDXWM','ci','d4112c16ff55b542f7ca86d7d0030218fe8b39bd69aca9d7a77d9f37658d7ab6','read_write',1,'2026-11-30T20:19:10.723785Z',NULL,NULL,NULL);
CREATE TABLE changes (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT, -- rises by every change; what followers remember
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            subject TEXT NOT NULL CHECK (subject IN ('memory', 'directories', 'store')),
            memory_id TEXT                -- which memory changed, where subject is memory
        );
INSERT INTO "changes" VALUES(1,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','memory','mem_01M8Q1S17QZTMJX6FDB74VTXQV');
INSERT INTO "changes" VALUES(2,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','memory','mem_01M8Q1S17QZTMMYX360EJQ3PHM');
INSERT INTO "changes" VALUES(3,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','memory','mem_01M8Q1S17QZTMJX6FDB74VTXQV');
INSERT INTO "changes" VALUES(4,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','memory','mem_01M8Q1S17QZTMJX6FDB74VTXQV');
INSERT INTO "changes" VALUES(5,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','memory','mem_01M8Q1S17QZTMMYX360EJQ3PHM');
INSERT INTO "changes" VALUES(6,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','memory','mem_01M8Q1S17QZTN01VYGR81XSMK9');
INSERT INTO "changes" VALUES(7,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','directories',NULL);
CREATE TABLE "contents" (
            id INTEGER PRIMARY KEY,
            sha256 TEXT NOT NULL UNIQUE,  -- of the bytes, hexadecimal; each distinct text is kept once
            size_bytes INTEGER NOT NULL,
            bytes BLOB NOT NULL           -- UTF-8; a BLOB because some tools end a TEXT at NUL
        );
INSERT INTO "contents" VALUES(1,'ffe492a7b661bf203d73d8e8ab59cc46f8ec2e6373c803714fecbd0827344e29',12,X'496E7374616C6C2069742E0A');
INSERT INTO "contents" VALUES(3,'c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2',27,X'496E7374616C6C2069742E0A5468656E206D6F756E742069742E0A');
INSERT INTO "contents" VALUES(4,'b1de61b8108f15d9913e0fa2e6371ed737fbe2be84e63a89ca8ae7a370322371',8,X'4772C3BCC39F650A');
CREATE TABLE kept_directories (
            store_id TEXT NOT NULL REFERENCES memory_stores (id) ON DELETE CASCADE,
            path TEXT NOT NULL,           -- a directory that exists even when no memory lies below it
            updated_at TEXT NOT NULL,
            file_mode INTEGER,
            file_mtime_ns INTEGER,
            file_inode INTEGER,
            PRIMARY KEY (store_id, path)
        );
INSERT INTO "kept_directories" VALUES('memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','/empty/inside','2026-11-30T20:19:10.714744Z',NULL,NULL,NULL);
CREATE TABLE "memories" (
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
        );
INSERT INTO "memories" VALUES('mem_01M8Q1S17QZTMJX6FDB74VTXQV','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','/guide/install.md','memver_01M8Q1S17SV553ECEQ2TKX4MYP','c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2',27,3,'2026-11-30T20:19:10.712021Z','2026-11-30T20:19:10.713483Z',NULL,NULL,NULL);
INSERT INTO "memories" VALUES('mem_01M8Q1S17QZTN01VYGR81XSMK9','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','/ünïcode.md','memver_01M8Q1S17T6BT7ASR0R3M4QBP5','b1de61b8108f15d9913e0fa2e6371ed737fbe2be84e63a89ca8ae7a370322371',8,4,'2026-11-30T20:19:10.714497Z','2026-11-30T20:19:10.714497Z',NULL,NULL,NULL);
CREATE TABLE memory_accesses (
            memory_id TEXT PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
            accessed_at TEXT NOT NULL     -- when the text was last read, to within an hour
        ) WITHOUT ROWID
        ;
INSERT INTO "memory_accesses" VALUES('mem_01M8Q1S17QZTMJX6FDB74VTXQV','2026-11-30T20:19:10.723602Z');
CREATE TABLE memory_stores (
            id TEXT PRIMARY KEY,          -- memstore_...
            name TEXT NOT NULL,           -- not unique
            description TEXT NOT NULL,
            metadata TEXT NOT NULL,       -- JSON object of text to text
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,     -- of name, description, metadata or archiving; not of memories
            archived_at TEXT              -- null while the store can be changed
        , guards TEXT /* JSON: secrets, personal_data, max_content_bytes, allowed_paths */ NOT NULL DEFAULT '{}');
INSERT INTO "memory_stores" VALUES('memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','Project notes','What we learnt','{"team": "platform"}','2026-11-30T20:19:10.711225Z','2026-11-30T20:19:10.711225Z',NULL,'{}');
INSERT INTO "memory_stores" VALUES('memstore_01M8Q1S17QS7ARBBBWY806VFAJ','Empty','','{}','2026-11-30T20:19:10.711568Z','2026-11-30T20:19:10.711568Z',NULL,'{}');
CREATE TABLE "memory_versions" (
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
        );
INSERT INTO "memory_versions" VALUES(1,'memver_01M8Q1S17R5649F1YWZ87S50VB','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','mem_01M8Q1S17QZTMJX6FDB74VTXQV','created','/guide/setup.md',12,'ffe492a7b661bf203d73d8e8ab59cc46f8ec2e6373c803714fecbd0827344e29',1,'2026-11-30T20:19:10.712021Z','user_actor','ada',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(2,'memver_01M8Q1S17R7SPHSZFD6ZXZ1H08','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','mem_01M8Q1S17QZTMMYX360EJQ3PHM','created',NULL,NULL,NULL,NULL,'2026-11-30T20:19:10.712747Z','user_actor','ada','2026-11-30T20:19:10.715099Z','user_actor','ada');
INSERT INTO "memory_versions" VALUES(3,'memver_01M8Q1S17SSEJBG8QEF3633BTT','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','mem_01M8Q1S17QZTMJX6FDB74VTXQV','modified','/guide/setup.md',27,'c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2',3,'2026-11-30T20:19:10.713039Z','session_actor','sesn_01M8Q1S17QZTMES6XH7SNBTT78',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(4,'memver_01M8Q1S17SV553ECEQ2TKX4MYP','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','mem_01M8Q1S17QZTMJX6FDB74VTXQV','modified','/guide/install.md',27,'c6924eb9a7ec015e94fe0be410c016843d4e2b7181c88e6f1330a874922e25a2',3,'2026-11-30T20:19:10.713483Z','user_actor','ada',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(5,'memver_01M8Q1S17SV55EKESVE4MJRY62','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','mem_01M8Q1S17QZTMMYX360EJQ3PHM','deleted','/gone.md',NULL,NULL,NULL,'2026-11-30T20:19:10.713873Z','session_actor','sesn_01M8Q1S17QZTMES6XH7SNBTT78',NULL,NULL,NULL);
INSERT INTO "memory_versions" VALUES(6,'memver_01M8Q1S17T6BT7ASR0R3M4QBP5','memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','mem_01M8Q1S17QZTN01VYGR81XSMK9','created','/ünïcode.md',8,'b1de61b8108f15d9913e0fa2e6371ed737fbe2be84e63a89ca8ae7a370322371',4,'2026-11-30T20:19:10.714497Z','user_actor','ada',NULL,NULL,NULL);
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
INSERT INTO "session_attachments" VALUES('sesn_01M8Q1S17QZTMES6XH7SNBTT78',0,'memstore_01M8Q1S17Q75YB2YPFSXPGGGWS','read_write','Project notes','What we learnt','/mnt/memory/project-notes','');
CREATE TABLE sessions (
            id TEXT PRIMARY KEY,          -- sesn_...
            created_at TEXT NOT NULL,
            ended_at TEXT
        , archived_at /* nothing can be mounted for it any more */ TEXT, title /* as whoever began it called it */ TEXT, metadata /* JSON object of text to text */ TEXT NOT NULL DEFAULT '{}', agent_id /* what whoever began it calls the agent */ TEXT, agent_version /* and which of its versions */ INTEGER, environment_id /* and its environment */ TEXT);
INSERT INTO "sessions" VALUES('sesn_01M8Q1S17QZTMES6XH7SNBTT78','2026-11-30T20:19:10.711692Z','2026-11-30T20:19:10.723926Z',NULL,NULL,'{}',NULL,NULL,NULL);
CREATE TABLE workspace (
            id TEXT PRIMARY KEY,       -- wrk_...; there is one row
            created_at TEXT NOT NULL   -- RFC 3339, UTC, like every ..._at
        , retention_days INTEGER /* versions older than this may be pruned */ NOT NULL DEFAULT 30, prune_automatically INTEGER /* 1: they are, once a day */ NOT NULL DEFAULT 0, pruned_at /* the last time that this happened */ TEXT, scrubs_wanted INTEGER /* how often something was redacted or a store deleted */ NOT NULL DEFAULT 0, scrubs_done INTEGER /* less than wanted: that may still be in free pages or the WAL */ NOT NULL DEFAULT 0);
INSERT INTO "workspace" VALUES('wrk_01M8Q1S17EZ4JEXVNGTXEGC1P7','2026-11-30T20:19:10.702304Z',30,0,NULL,1,1);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE INDEX memory_versions_of_store ON memory_versions (store_id, sequence);
CREATE INDEX memory_versions_of_memory ON memory_versions (memory_id, sequence);
CREATE INDEX memory_versions_of_content ON memory_versions (content_id);
CREATE INDEX memory_versions_of_actor ON memory_versions (store_id, created_by_id, sequence);
CREATE INDEX memories_of_content ON memories (content_id);
CREATE INDEX memories_of_head ON memories (head_version_id);
CREATE INDEX sessions_by_time ON sessions (created_at, id);
CREATE INDEX session_attachments_of_store ON session_attachments (store_id, session_id);
CREATE INDEX api_key_stores_of_store ON api_key_stores (store_id);
CREATE VIEW current_memories AS
        SELECT memory_stores.name AS store, memories.path, CAST(contents.bytes AS TEXT) AS text,
               memories.content_size_bytes AS size_bytes, memories.updated_at,
               memory_versions.created_by_type AS last_actor_type, memory_versions.created_by_id AS last_actor_id,
               memories.id AS memory_id, memories.head_version_id, memories.store_id
        FROM memories
        JOIN memory_stores ON memory_stores.id = memories.store_id
        JOIN memory_versions ON memory_versions.id = memories.head_version_id
        JOIN contents ON contents.id = memories.content_id
        ORDER BY memory_stores.name, memories.path;
CREATE VIEW history AS
        SELECT memory_versions.created_at, memory_stores.name AS store, memory_versions.path,
               memory_versions.operation, memory_versions.created_by_type AS actor_type,
               memory_versions.created_by_id AS actor_id, memory_versions.content_size_bytes AS size_bytes,
               CAST(contents.bytes AS TEXT) AS text, memory_versions.redacted_at,
               memory_versions.id AS version_id, memory_versions.memory_id, memory_versions.store_id
        FROM memory_versions
        JOIN memory_stores ON memory_stores.id = memory_versions.store_id
        LEFT JOIN contents ON contents.id = memory_versions.content_id
        ORDER BY memory_versions.sequence DESC;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('changes',7);
COMMIT;
