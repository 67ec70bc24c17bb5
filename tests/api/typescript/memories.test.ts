/** client.beta.memoryStores.memories */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';

import { all, conflicting, invalid, missing, recent, sha256 } from './checks.ts';
import { client, keyId, newStore } from './given.ts';

const { memories, memoryVersions } = client.beta.memoryStores;

let store: string;
before(async () => {
  store = await newStore();
});

const PATH_CONFLICT = 'memory_path_conflict_error';
const PRECONDITION_FAILED = 'memory_precondition_failed_error';

/** How many versions a memory has. */
const versions = async (id: string) => (await all(memoryVersions.list(store, { memory_id: id }))).length;

test('create answers with the memory, and with its content where that is asked for', async () => {
  const made = await memories.create(store, { path: '/create/full.md', content: 'hello\n', view: 'full' });
  assert.deepEqual(Object.keys(made).sort(), [
    'content',
    'content_sha256',
    'content_size_bytes',
    'created_at',
    'id',
    'memory_store_id',
    'memory_version_id',
    'path',
    'type',
    'updated_at',
  ]);
  assert.equal(made.type, 'memory');
  assert.match(made.id, /^mem_[0-9A-Z]{26}$/);
  assert.match(made.memory_version_id, /^memver_[0-9A-Z]{26}$/);
  assert.equal(made.memory_store_id, store);
  assert.equal(made.path, '/create/full.md');
  assert.equal(made.content, 'hello\n');
  assert.equal(made.content_size_bytes, 6);
  assert.equal(made.content_sha256, sha256('hello\n'));
  assert.equal(made.updated_at, made.created_at);
  recent(made.created_at);
  const basic = await memories.create(store, { path: '/create/basic.md', content: 'hello\n' });
  assert.equal(basic.content, null);
  assert.equal(basic.content_sha256, sha256('hello\n'));
});

test('create never overwrites, and says what is in the way', async () => {
  const made = await memories.create(store, { path: '/taken/a.md', content: 'a' });
  for (const path of ['/taken/a.md', '/taken', '/taken/a.md/below']) {
    const error = await conflicting(memories.create(store, { path, content: 'b' }), PATH_CONFLICT);
    assert.equal(error['conflicting_memory_id'], made.id);
    assert.equal(error['conflicting_path'], '/taken/a.md');
  }
  assert.equal(await versions(made.id), 1);
});

test('retrieve has the content, unless the basic view is asked for', async () => {
  const made = await memories.create(store, { path: '/retrieve.md', content: 'text', view: 'full' });
  const where = { memory_store_id: store };
  assert.deepEqual(await memories.retrieve(made.id, where), made);
  assert.deepEqual(await memories.retrieve(made.id, { ...where, view: 'full' }), made);
  assert.deepEqual(await memories.retrieve(made.id, { ...where, view: 'basic' }), { ...made, content: null });
  await missing(memories.retrieve('mem_00000000000000000000000000', where));
  await missing(memories.retrieve(made.id, { memory_store_id: await newStore() }));
});

test('update changes content, path, or both, and keeps the id', async () => {
  const made = await memories.create(store, { path: '/update/a.md', content: 'one' });
  const where = { memory_store_id: store };
  const edited = await memories.update(made.id, { ...where, content: 'two', view: 'full' });
  assert.equal(edited.id, made.id);
  assert.equal(edited.content, 'two');
  assert.equal(edited.content_sha256, sha256('two'));
  assert.equal(edited.path, '/update/a.md');
  assert.notEqual(edited.memory_version_id, made.memory_version_id);
  assert.equal(edited.created_at, made.created_at);
  assert.ok(edited.updated_at > made.updated_at);
  const moved = await memories.update(made.id, { ...where, path: '/update/b.md' });
  assert.equal(moved.path, '/update/b.md');
  assert.equal(moved.content, null);
  assert.equal(moved.content_sha256, sha256('two'));
  const both = await memories.update(made.id, { ...where, path: '/update/c.md', content: 'three', view: 'full' });
  assert.equal(both.path, '/update/c.md');
  assert.equal(both.content, 'three');
  assert.deepEqual(await memories.retrieve(made.id, where), both);
  const history = await all(memoryVersions.list(store, { memory_id: made.id, view: 'full' }));
  assert.deepEqual(
    history.map((version) => [version.operation, version.path, version.content]),
    [
      ['modified', '/update/c.md', 'three'],
      ['modified', '/update/b.md', 'two'],
      ['modified', '/update/a.md', 'two'],
      ['created', '/update/a.md', 'one'],
    ],
  );
  assert.deepEqual(history[0]?.created_by, { type: 'api_actor', api_key_id: keyId });
});

test('update to what there is makes no version', async () => {
  const made = await memories.create(store, { path: '/same.md', content: 'same' });
  const again = await memories.update(made.id, { memory_store_id: store, content: 'same', path: '/same.md' });
  assert.equal(again.memory_version_id, made.memory_version_id);
  assert.equal(again.updated_at, made.updated_at);
  assert.equal(await versions(made.id), 1);
});

test('a rename onto a used path is refused, and changes nothing', async () => {
  const kept = await memories.create(store, { path: '/rename/kept.md', content: 'kept' });
  const made = await memories.create(store, { path: '/rename/made.md', content: 'made' });
  for (const path of ['/rename/kept.md', '/rename/kept.md/below']) {
    const error = await conflicting(memories.update(made.id, { memory_store_id: store, path }), PATH_CONFLICT);
    assert.equal(error['conflicting_memory_id'], kept.id);
    assert.equal(error['conflicting_path'], '/rename/kept.md');
  }
  assert.equal((await memories.retrieve(made.id, { memory_store_id: store })).path, '/rename/made.md');
});

test('a precondition that holds lets an update pass', async () => {
  const made = await memories.create(store, { path: '/if/holds.md', content: 'one' });
  const updated = await memories.update(made.id, {
    memory_store_id: store,
    content: 'two',
    precondition: { type: 'content_sha256', content_sha256: made.content_sha256 },
  });
  assert.equal(updated.content_sha256, sha256('two'));
});

test('a precondition that fails refuses an update, and nothing is changed', async () => {
  const made = await memories.create(store, { path: '/if/fails.md', content: 'one' });
  const update = {
    memory_store_id: store,
    content: 'two',
    precondition: { type: 'content_sha256', content_sha256: sha256('other') },
  } as const;
  await conflicting(memories.update(made.id, update), PRECONDITION_FAILED);
  const kept = await memories.retrieve(made.id, { memory_store_id: store });
  assert.equal(kept.content, 'one');
  assert.equal(kept.memory_version_id, made.memory_version_id);
});

test('an update that was made already passes whatever its precondition', async () => {
  const made = await memories.create(store, { path: '/if/again.md', content: 'one' });
  const update = {
    memory_store_id: store,
    content: 'two',
    precondition: { type: 'content_sha256', content_sha256: made.content_sha256 },
  } as const;
  const first = await memories.update(made.id, update);
  const second = await memories.update(made.id, update);
  assert.deepEqual(second, first);
  assert.equal(await versions(made.id), 2);
});

test('delete can be held to a hash, and leaves the history', async () => {
  const made = await memories.create(store, { path: '/delete.md', content: 'gone' });
  const where = { memory_store_id: store };
  await conflicting(
    memories.delete(made.id, { ...where, expected_content_sha256: sha256('other') }),
    PRECONDITION_FAILED,
  );
  assert.equal((await memories.retrieve(made.id, where)).content, 'gone');
  const deleted = await memories.delete(made.id, { ...where, expected_content_sha256: made.content_sha256 });
  assert.deepEqual(deleted, { id: made.id, type: 'memory_deleted' });
  await missing(memories.retrieve(made.id, where));
  await missing(memories.delete(made.id, where));
  const history = await all(memoryVersions.list(store, { memory_id: made.id }));
  assert.deepEqual(
    history.map((version) => version.operation),
    ['deleted', 'created'],
  );
  const other = await memories.create(store, { path: '/delete.md', content: 'new' });
  assert.notEqual(other.id, made.id);
  await memories.delete(other.id, where);
});

test('list goes below a directory, or shows what lies directly in it', async () => {
  const own = await newStore();
  const paths = ['/a.md', '/notes/b.md', '/notes/deep/c.md', '/notes/deep/d.md', '/notes-archive/e.md', '/z.md'];
  for (const path of paths) await memories.create(own, { path, content: path });
  const listed = async (query: Parameters<typeof memories.list>[1]) =>
    (await all(memories.list(own, query))).map((item) => `${item.type} ${item.path}`);
  const as = (type: string) => (path: string) => `${type} ${path}`;
  const sorted = [...paths].sort();
  assert.deepEqual(await listed({}), sorted.map(as('memory')));
  assert.deepEqual(await listed({ path_prefix: '/', depth: 0 }), sorted.map(as('memory')));
  assert.deepEqual(
    await listed({ path_prefix: '/notes/' }),
    ['/notes/b.md', '/notes/deep/c.md', '/notes/deep/d.md'].map(as('memory')),
  );
  assert.deepEqual(await listed({ depth: 1 }), [
    'memory /a.md',
    'memory_prefix /notes-archive/',
    'memory_prefix /notes/',
    'memory /z.md',
  ]);
  assert.deepEqual(await listed({ path_prefix: '/notes/', depth: 1 }), [
    'memory /notes/b.md',
    'memory_prefix /notes/deep/',
  ]);
  assert.deepEqual(await listed({ path_prefix: '/nothing/' }), []);
  await invalid(listed({ depth: 2 }));
  await invalid(listed({ path_prefix: '/notes' }));
});

test('list shows contents in the full view alone', async () => {
  const own = await newStore();
  const made = await memories.create(own, { path: '/one.md', content: 'one', view: 'full' });
  assert.deepEqual(await all(memories.list(own, { view: 'full' })), [made]);
  assert.deepEqual(await all(memories.list(own)), [{ ...made, content: null }]);
});
