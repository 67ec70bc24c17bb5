/** The SDK's own helper for a session's memories, with which a worker keeps directories and stores alike. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';
import { SessionMemoryStores } from '@anthropic-ai/sdk/tools/agent-toolset/node';

import { all } from './checks.ts';
import { client, newStore, scratch } from './given.ts';

const { memories, memoryVersions } = client.beta.memoryStores;

/** What the helper could not do: it warns, and goes on. */
const warnings: unknown[] = [];
const ignore = () => undefined;
const warn = (...said: unknown[]) => void warnings.push(said);
const worker = new Anthropic({ logLevel: 'warn', logger: { error: warn, warn, info: ignore, debug: ignore } });

/** A store's texts by path. */
async function contents(store: string): Promise<Record<string, string | null | undefined>> {
  const found = await all(memories.list(store, { view: 'full' }));
  return Object.fromEntries(found.map((item) => [item.path, item.type === 'memory' ? item.content : undefined]));
}

test('a session is downloaded, edited on both sides, and synced', async () => {
  const [writable, readable] = [await newStore('Notes'), await newStore('Team standards')];
  const many = Object.fromEntries(Array.from({ length: 45 }, (_, index) => [`/many/${index}.md`, `text ${index}`]));
  const before = {
    ...many,
    '/local.md': 'edited locally',
    '/remote.md': 'edited remotely',
    '/gone-locally.md': 'to be deleted locally',
    '/gone-remotely.md': 'to be deleted remotely',
    '/empty.md': '',
    '/ノート/🎉.md': 'crlf\r\nno last newline',
  };
  const ids: Record<string, string> = {};
  for (const [path, content] of Object.entries(before)) {
    ids[path] = (await memories.create(writable, { path, content })).id;
  }
  await memories.create(readable, { path: '/style.md', content: 'be brief' });

  const made = await client.beta.sessions.create({
    agent: 'agent_1',
    environment_id: 'env_1',
    resources: [
      { type: 'memory_store', memory_store_id: writable },
      { type: 'memory_store', memory_store_id: readable, access: 'read_only' },
    ],
  });
  // As a worker reads it, but below a directory of this test's own.
  const session = await worker.beta.sessions.retrieve(made.id);
  for (const resource of session.resources) {
    assert.equal(resource.type, 'memory_store');
    resource.mount_path = join(scratch, resource.mount_path ?? '');
  }
  const stores = new SessionMemoryStores(worker, { workdir: scratch });
  await stores.download(session);
  const [notes = '', standards = ''] = stores.roots;
  assert.equal(notes, join(scratch, '/mnt/memory/notes'));
  assert.deepEqual(stores.readOnlyRoots, [standards]);
  for (const [path, content] of Object.entries(before)) {
    assert.equal(await readFile(join(notes, path), 'utf8'), content);
  }
  assert.equal(await readFile(join(standards, 'style.md'), 'utf8'), 'be brief');

  await writeFile(join(notes, 'local.md'), 'changed locally 🎉');
  await mkdir(join(notes, 'new'));
  await writeFile(join(notes, 'new/file.md'), 'made locally');
  await rm(join(notes, 'gone-locally.md'));
  await writeFile(join(standards, 'not-allowed.md'), 'never pushed');
  const where = { memory_store_id: writable };
  await memories.update(ids['/remote.md'] ?? '', { ...where, content: 'changed remotely' });
  await memories.delete(ids['/gone-remotely.md'] ?? '', where);
  await memories.create(writable, { path: '/new/remote.md', content: 'made remotely' });
  await stores.finish();

  const { '/gone-locally.md': _, '/gone-remotely.md': __, ...kept } = before;
  const after = {
    ...kept,
    '/local.md': 'changed locally 🎉',
    '/remote.md': 'changed remotely',
    '/new/file.md': 'made locally',
    '/new/remote.md': 'made remotely',
  };
  assert.deepEqual(await contents(writable), after);
  for (const [path, content] of Object.entries(after)) {
    assert.equal(await readFile(join(notes, path), 'utf8'), content);
  }
  assert.equal(existsSync(join(notes, 'gone-remotely.md')), false);
  assert.deepEqual(await contents(readable), { '/style.md': 'be brief' });
  const history = await all(memoryVersions.list(writable, { memory_id: ids['/local.md'] ?? '' }));
  assert.deepEqual(history.map((version) => version.operation), ['modified', 'created']);

  await writeFile(join(notes, 'late.md'), 'written at the very end');
  await stores.flushWrites();
  assert.deepEqual(await contents(writable), { ...after, '/late.md': 'written at the very end' });
  await stores.dispose();
  assert.equal(existsSync(notes), false);
  assert.deepEqual(warnings, []);
});
