/** client.beta.sessions, as far as sessions have memory stores */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { all, invalid, missing, recent } from './checks.ts';
import { client, newStore } from './given.ts';

const { sessions, memoryStores } = client.beta;
const REQUIRED = { agent: 'agent_1', environment_id: 'env_1' };

/** A session with one new store. */
async function newSession() {
  const storeId = await newStore();
  const session = await sessions.create({
    ...REQUIRED,
    resources: [{ type: 'memory_store', memory_store_id: storeId }],
  });
  return { session, storeId };
}

test('create says where each store is to be mounted', async () => {
  const first = await memoryStores.create({ name: 'User Preferences', description: 'What she likes' });
  const second = await memoryStores.create({ name: 'user-preferences' });
  const session = await sessions.create({
    agent: { type: 'agent', id: 'agent_7' },
    environment_id: 'env_7',
    title: 'A title 🎉',
    metadata: { ticket: '42' },
    resources: [
      { type: 'memory_store', memory_store_id: first.id },
      { type: 'memory_store', memory_store_id: second.id, access: 'read_only', instructions: 'Look here first' },
    ],
  });
  assert.match(session.id, /^sesn_[0-9A-Z]{26}$/);
  assert.equal(session.type, 'session');
  assert.equal(session.status, 'idle');
  assert.equal(session.title, 'A title 🎉');
  assert.deepEqual(session.metadata, { ticket: '42' });
  assert.equal(session.agent.id, 'agent_7');
  assert.deepEqual(session.agent.skills, []);
  assert.equal(session.environment_id, 'env_7');
  assert.equal(session.archived_at, null);
  recent(session.created_at);
  assert.deepEqual(session.resources, [
    {
      type: 'memory_store',
      memory_store_id: first.id,
      access: 'read_write',
      instructions: '',
      name: 'User Preferences',
      description: 'What she likes',
      mount_path: '/mnt/memory/user-preferences',
    },
    {
      type: 'memory_store',
      memory_store_id: second.id,
      access: 'read_only',
      instructions: 'Look here first',
      name: 'user-preferences',
      description: '',
      mount_path: '/mnt/memory/user-preferences-2',
    },
  ]);
});

test('retrieve answers with the same, also when the store was renamed since', async () => {
  const { session, storeId } = await newSession();
  await memoryStores.update(storeId, { name: 'Renamed' });
  assert.deepEqual(await sessions.retrieve(session.id), session);
  await missing(sessions.retrieve('sesn_00000000000000000000000000'));
});

test('what a session cannot have is refused', async () => {
  const resource = (memory_store_id: string) => ({ type: 'memory_store', memory_store_id }) as const;
  const nine = await Promise.all(Array.from({ length: 9 }, () => newStore()));
  await invalid(sessions.create({ ...REQUIRED, resources: nine.map(resource) }));
  const eight = await sessions.create({ ...REQUIRED, resources: nine.slice(1).map(resource) });
  assert.equal(eight.resources.length, 8);
  const [one = ''] = nine;
  await invalid(sessions.create({ ...REQUIRED, resources: [resource(one), resource(one)] }));
  await invalid(
    sessions.create({ ...REQUIRED, resources: [{ ...resource(one), instructions: 'x'.repeat(4_097) }] }),
  );
  await memoryStores.archive(one);
  await invalid(sessions.create({ ...REQUIRED, resources: [resource(one)] }));
  await missing(sessions.create({ ...REQUIRED, resources: [resource('memstore_00000000000000000000000000')] }));
});

test('list finds the sessions of a store, page by page, either way round', async () => {
  const storeId = await newStore();
  const made: string[] = [];
  for (let count = 0; count < 5; count += 1) {
    const resources = [{ type: 'memory_store', memory_store_id: storeId } as const];
    made.push((await sessions.create({ ...REQUIRED, resources })).id);
  }
  const found = async (query: Parameters<typeof sessions.list>[0]) =>
    (await all(sessions.list({ memory_store_id: storeId, ...query }))).map((session) => session.id);
  assert.deepEqual(await found({ limit: 2, order: 'asc' }), made);
  assert.deepEqual(await found({ limit: 2 }), made.toReversed());
  assert.deepEqual(await found({}), made.toReversed());
  const second = await sessions.retrieve(made[1] ?? '');
  const fourth = await sessions.retrieve(made[3] ?? '');
  const span = { order: 'asc' } as const;
  const [from, to] = [second.created_at, fourth.created_at];
  assert.deepEqual(await found({ ...span, 'created_at[gte]': from, 'created_at[lte]': to }), made.slice(1, 4));
  assert.deepEqual(await found({ ...span, 'created_at[gt]': from, 'created_at[lt]': to }), made.slice(2, 3));
  assert.ok((await all(sessions.list({ limit: 100 }))).length >= 5);
});

test('archive ends a session for good', async () => {
  const { session, storeId } = await newSession();
  const archived = await sessions.archive(session.id);
  recent(archived.archived_at);
  assert.equal(archived.id, session.id);
  assert.equal(archived.status, 'terminated');
  assert.deepEqual(archived.resources, session.resources);
  assert.deepEqual(await sessions.archive(session.id), archived);
  assert.deepEqual(await all(sessions.list({ memory_store_id: storeId })), []);
  const found = await all(sessions.list({ memory_store_id: storeId, include_archived: true }));
  assert.deepEqual(found, [archived]);
});
