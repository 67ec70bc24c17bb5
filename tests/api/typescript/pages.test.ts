/** Lists longer than a page: `for await`, page by page, and while what is listed changes. */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';

import { all, invalid } from './checks.ts';
import { client, newStore } from './given.ts';

const { memories, memoryVersions } = client.beta.memoryStores;

const COUNT = 250;
const paths = Array.from(
  { length: COUNT },
  (_, index) => `/d${index % 30}/${String(index).padStart(3, '0')}.md`,
).sort();

let store: string;
before(async () => {
  store = await newStore();
  const queue = paths.values();
  const worker = async () => {
    for (const path of queue) await memories.create(store, { path, content: path });
  };
  await Promise.all(Array.from({ length: 8 }, worker));
});

test('for await has every memory once, in the order of paths', async () => {
  for (const limit of [7, 100]) {
    assert.deepEqual((await all(memories.list(store, { limit }))).map((item) => item.path), paths);
  }
});

test('pages are as long as they are asked to be', async () => {
  const sizes: number[] = [];
  for await (const page of (await memories.list(store, { limit: 100 })).iterPages()) sizes.push(page.data.length);
  assert.deepEqual(sizes, [100, 100, 50]);
  assert.equal((await memories.list(store)).data.length, 20);
  await invalid(memories.list(store, { limit: 101 }));
  await invalid(memories.list(store, { limit: 0 }));
});

test('a page is followed by hand to the last', async () => {
  let page = await memories.list(store, { limit: 100 });
  const found = [...page.data];
  while (page.hasNextPage()) {
    page = await page.getNextPage();
    found.push(...page.data);
  }
  assert.equal(page.next_page, null);
  assert.deepEqual(found.map((item) => item.path), paths);
  await assert.rejects(page.getNextPage(), /No next page expected/);
});

test('a page of contents has at most 20, and none is missing', async () => {
  const first = await memories.list(store, { view: 'full', limit: 100 });
  assert.equal(first.data.length, 20);
  const found = await all(first);
  assert.deepEqual(found.map((item) => item.path), paths);
  assert.ok(found.every((item) => item.type === 'memory' && item.content === item.path));
});

test('directories are paged like memories', async () => {
  const found = await all(memories.list(store, { depth: 1, limit: 4 }));
  assert.ok(found.every((item) => item.type === 'memory_prefix'));
  const directories = new Set(paths.map((path) => path.slice(0, path.lastIndexOf('/') + 1)));
  assert.deepEqual(found.map((item) => item.path), [...directories].sort());
});

test('versions are paged, newest first, with and without contents', async () => {
  for (const query of [{ limit: 100 }, { limit: 100, view: 'full' }] as const) {
    const found = await all(memoryVersions.list(store, query));
    assert.equal(new Set(found.map((version) => version.id)).size, COUNT);
    assert.deepEqual(found.map((version) => version.path).sort(), paths);
    const times = found.map((version) => version.created_at);
    assert.deepEqual(times, times.toSorted().toReversed());
  }
});

test('what is written while versions are listed disturbs no page', async () => {
  const found: string[] = [];
  let written = 0;
  for await (const version of memoryVersions.list(store, { limit: 50 })) {
    if (found.length % 50 === 0) {
      await memories.create(store, { path: `/meanwhile/${(written += 1)}`, content: '' });
    }
    found.push(version.path ?? '');
  }
  assert.equal(written, 5);
  assert.deepEqual(found.sort(), paths);
});

test('a page that was never given is refused', async () => {
  await invalid(memories.list(store, { page: 'nonsense' }));
});

test('what is deleted while it is listed is listed once, and all of it', async () => {
  const deleted: string[] = [];
  for await (const item of memories.list(store, { limit: 30 })) {
    assert.equal(item.type, 'memory');
    await memories.delete(item.id, { memory_store_id: store });
    deleted.push(item.path);
  }
  assert.deepEqual(deleted.filter((path) => !path.startsWith('/meanwhile/')), paths);
  assert.deepEqual(await all(memories.list(store)), []);
  const versions = await all(memoryVersions.list(store, { operation: 'deleted', limit: 100 }));
  assert.deepEqual(versions.map((version) => version.path), deleted.toReversed());
});
