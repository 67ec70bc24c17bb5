/** client.beta.memoryStores */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { all, invalid, missing, recent } from './checks.ts';
import { client, newStore } from './given.ts';

const stores = client.beta.memoryStores;

test('create answers with the store', async () => {
  const made = await stores.create({
    name: 'User Preferences',
    description: 'What she likes 🎉',
    metadata: { user: 'u_1', 'team name': 'búho' },
  });
  assert.deepEqual(Object.keys(made).sort(), [
    'archived_at',
    'created_at',
    'description',
    'id',
    'metadata',
    'name',
    'type',
    'updated_at',
  ]);
  assert.match(made.id, /^memstore_[0-9A-Z]{26}$/);
  assert.equal(made.type, 'memory_store');
  assert.equal(made.name, 'User Preferences');
  assert.equal(made.description, 'What she likes 🎉');
  assert.deepEqual(made.metadata, { user: 'u_1', 'team name': 'búho' });
  assert.equal(made.archived_at, null);
  assert.equal(made.updated_at, made.created_at);
  recent(made.created_at);
  assert.match(made._request_id ?? '', /^req_/);
});

test('what is not said has a default', async () => {
  const made = await stores.create({ name: 'Bare' });
  assert.equal(made.description, '');
  assert.deepEqual(made.metadata, {});
});

test('retrieve answers with the same', async () => {
  const made = await stores.create({ name: 'Again', metadata: { a: 'b' } });
  assert.deepEqual(await stores.retrieve(made.id), made);
  await missing(stores.retrieve('memstore_00000000000000000000000000'));
});

test('update changes what is said and keeps the rest', async () => {
  const made = await stores.create({ name: 'Old', description: 'kept', metadata: { a: '1', b: '2' } });
  const renamed = await stores.update(made.id, { name: 'New' });
  assert.equal(renamed.name, 'New');
  assert.equal(renamed.description, 'kept');
  assert.deepEqual(renamed.metadata, { a: '1', b: '2' });
  assert.ok(renamed.updated_at > made.updated_at);
  const changed = await stores.update(made.id, { description: '', metadata: { a: null, b: '3', c: '4' } });
  assert.equal(changed.name, 'New');
  assert.equal(changed.description, '');
  assert.deepEqual(changed.metadata, { b: '3', c: '4' });
  assert.deepEqual(await stores.retrieve(made.id), changed);
  await invalid(stores.update(made.id, { name: '' }));
});

test('what breaks a rule is refused', async () => {
  await invalid(stores.create({ name: '' }));
  await invalid(stores.create({ name: 'x'.repeat(256) }));
  await invalid(stores.create({ name: 'two\nlines' }));
  await invalid(stores.create({ name: 'x', description: 'x'.repeat(1_025) }));
  await invalid(stores.create({ name: 'x', metadata: { key: 'v'.repeat(513) } }));
});

test('list has every live store once, whatever the size of a page', async () => {
  const made = [await newStore(), await newStore(), await newStore()];
  const found = await all(stores.list({ limit: 2 }));
  const ids = found.map((store) => store.id);
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual(
    ids.filter((id) => made.includes(id)),
    made,
  );
  assert.deepEqual(ids, (await all(stores.list())).map((store) => store.id));
});

test('list can be held to a span of time', async () => {
  const [before, first, last, after] = [
    await stores.create({ name: 'Before' }),
    await stores.create({ name: 'First' }),
    await stores.create({ name: 'Last' }),
    await stores.create({ name: 'After' }),
  ];
  const found = await all(stores.list({ 'created_at[gte]': first.created_at, 'created_at[lte]': last.created_at }));
  assert.deepEqual(found, [first, last]);
  assert.ok(before.created_at < first.created_at && last.created_at < after.created_at);
});

test('archive makes a store read-only for ever', async () => {
  const id = await newStore('To be archived');
  const memory = await stores.memories.create(id, { path: '/kept.md', content: 'kept' });
  const archived = await stores.archive(id);
  recent(archived.archived_at);
  assert.equal(archived.id, id);
  assert.deepEqual(await stores.archive(id), archived);
  await invalid(stores.update(id, { name: 'No' }));
  await invalid(stores.memories.create(id, { path: '/new.md', content: '' }));
  await invalid(stores.memories.update(memory.id, { memory_store_id: id, content: 'other' }));
  assert.equal((await stores.memories.retrieve(memory.id, { memory_store_id: id })).content, 'kept');
  const listed = async (include_archived: boolean) =>
    (await all(stores.list({ include_archived }))).some((store) => store.id === id);
  assert.equal(await listed(false), false);
  assert.equal(await listed(true), true);
});

test('delete leaves nothing of a store', async () => {
  const id = await newStore();
  const memory = await stores.memories.create(id, { path: '/a', content: 'a' });
  const deleted = await stores.delete(id);
  assert.deepEqual(deleted, { id, type: 'memory_store_deleted' });
  await missing(stores.retrieve(id));
  await missing(stores.delete(id));
  await missing(stores.memories.retrieve(memory.id, { memory_store_id: id }));
  await missing(stores.memoryVersions.retrieve(memory.memory_version_id, { memory_store_id: id }));
});
