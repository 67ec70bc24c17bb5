/** client.beta.memoryStores.memoryVersions */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';

import { all, invalid, missing, recent, sha256 } from './checks.ts';
import { client, keptSessionId, keptStoreId, keyId, newStore } from './given.ts';

const { memories, memoryVersions } = client.beta.memoryStores;

let store: string;
let memoryId: string;
before(async () => {
  store = await newStore();
  memoryId = (await memories.create(store, { path: '/a.md', content: 'one' })).id;
  await memories.update(memoryId, { memory_store_id: store, content: 'two' });
  await memories.delete(memoryId, { memory_store_id: store });
  await memories.create(store, { path: '/b.md', content: 'other' });
});

test('list has the whole history, newest first', async () => {
  const found = await all(memoryVersions.list(store, { view: 'full' }));
  assert.deepEqual(
    found.map((version) => [version.operation, version.path, version.content, version.content_sha256]),
    [
      ['created', '/b.md', 'other', sha256('other')],
      ['deleted', '/a.md', null, null],
      ['modified', '/a.md', 'two', sha256('two')],
      ['created', '/a.md', 'one', sha256('one')],
    ],
  );
  assert.ok(found[3]);
  const { id, created_at, ...created } = found[3];
  assert.match(id, /^memver_[0-9A-Z]{26}$/);
  recent(created_at);
  assert.deepEqual(created, {
    type: 'memory_version',
    memory_store_id: store,
    memory_id: memoryId,
    operation: 'created',
    path: '/a.md',
    content: 'one',
    content_size_bytes: 3,
    content_sha256: sha256('one'),
    created_by: { type: 'api_actor', api_key_id: keyId },
    redacted_at: null,
    redacted_by: null,
  });
  const basic = await all(memoryVersions.list(store));
  assert.deepEqual(basic, found.map((version) => ({ ...version, content: null })));
});

test('list can be narrowed', async () => {
  const history = await all(memoryVersions.list(store));
  const [latest, deleted, modified, created] = history;
  assert.ok(latest && deleted && modified && created);
  const found = async (query: Parameters<typeof memoryVersions.list>[1]) =>
    (await all(memoryVersions.list(store, query))).map((version) => version.id);
  assert.deepEqual(await found({ memory_id: memoryId }), [deleted.id, modified.id, created.id]);
  assert.deepEqual(await found({ operation: 'created' }), [latest.id, created.id]);
  assert.deepEqual(await found({ operation: 'modified' }), [modified.id]);
  assert.deepEqual(await found({ operation: 'deleted', memory_id: memoryId }), [deleted.id]);
  assert.deepEqual(await found({ api_key_id: keyId }), history.map((version) => version.id));
  assert.deepEqual(await found({ api_key_id: 'apikey_00000000000000000000000000' }), []);
  assert.deepEqual(await found({ service_account_id: 'svac_00000000000000000000000000' }), []);
  assert.deepEqual(await found({ session_id: keptSessionId }), []);
  assert.deepEqual(
    await found({ 'created_at[gte]': modified.created_at, 'created_at[lte]': deleted.created_at }),
    [deleted.id, modified.id],
  );
});

test('list tells sessions, people and keys apart', async () => {
  const bySession = await all(memoryVersions.list(keptStoreId, { session_id: keptSessionId }));
  assert.deepEqual(
    bySession.map((version) => [version.path, version.created_by]),
    [['/by-session.md', { type: 'session_actor', session_id: keptSessionId }]],
  );
  const everyone = await all(memoryVersions.list(keptStoreId, { operation: 'created' }));
  assert.deepEqual(
    everyone.map((version) => version.created_by),
    [
      { type: 'user_actor', user_id: 'alice' },
      { type: 'session_actor', session_id: keptSessionId },
    ],
  );
});

test('retrieve has the content, unless the basic view is asked for', async () => {
  const [listed] = await all(memoryVersions.list(store, { operation: 'modified', view: 'full' }));
  assert.ok(listed);
  const where = { memory_store_id: store };
  assert.deepEqual(await memoryVersions.retrieve(listed.id, where), listed);
  const basic = await memoryVersions.retrieve(listed.id, { ...where, view: 'basic' });
  assert.deepEqual(basic, { ...listed, content: null });
  await missing(memoryVersions.retrieve('memver_00000000000000000000000000', where));
  await missing(memoryVersions.retrieve(listed.id, { memory_store_id: await newStore() }));
});

test('redact takes path, content, size and hash, and leaves who and when', async () => {
  const own = await newStore();
  const where = { memory_store_id: own };
  const made = await memories.create(own, { path: '/secret.md', content: 'a secret' });
  await invalid(memoryVersions.redact(made.memory_version_id, where)); // the head of a live memory
  const before = await memoryVersions.retrieve(made.memory_version_id, where);
  await memories.update(made.id, { ...where, content: 'clean' });
  const redacted = await memoryVersions.redact(made.memory_version_id, where);
  recent(redacted.redacted_at);
  assert.deepEqual(
    redacted,
    {
      ...before,
      path: null,
      content: null,
      content_size_bytes: null,
      content_sha256: null,
      redacted_at: redacted.redacted_at,
      redacted_by: { type: 'api_actor', api_key_id: keyId },
    },
  );
  assert.deepEqual(await memoryVersions.retrieve(made.memory_version_id, where), redacted);
  assert.deepEqual(await memoryVersions.redact(made.memory_version_id, where), redacted);
  assert.equal((await memories.retrieve(made.id, where)).content, 'clean');
  await missing(memoryVersions.redact('memver_00000000000000000000000000', where));
});

test('every version of a deleted memory can be redacted', async () => {
  const own = await newStore();
  const where = { memory_store_id: own };
  const made = await memories.create(own, { path: '/secret.md', content: 'a secret' });
  await memories.delete(made.id, where);
  for await (const version of memoryVersions.list(own, { memory_id: made.id })) {
    await memoryVersions.redact(version.id, where);
  }
  const left = await all(memoryVersions.list(own, { memory_id: made.id, view: 'full' }));
  assert.deepEqual(
    left.map((version) => [version.operation, version.path, version.content]),
    [
      ['deleted', null, null],
      ['created', null, null],
    ],
  );
});

test('an old version can be written back', async () => {
  const own = await newStore();
  const where = { memory_store_id: own };
  const made = await memories.create(own, { path: '/a.md', content: 'good' });
  const bad = await memories.update(made.id, { ...where, content: 'bad' });
  const old = await memoryVersions.retrieve(made.memory_version_id, where);
  await memories.update(made.id, {
    ...where,
    content: old.content ?? '',
    precondition: { type: 'content_sha256', content_sha256: bad.content_sha256 },
  });
  assert.equal((await memories.retrieve(made.id, where)).content, 'good');
});
