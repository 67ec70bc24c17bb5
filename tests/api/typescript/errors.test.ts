/** Errors arrive as the classes that the SDK has for them, and only what can be cured by it is tried again. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import { all, conflicting, forbidden, invalid, missing, refused } from './checks.ts';
import { client, counting, keptStoreId, newStore, oneStoreKey, readOnlyKey, slowServer } from './given.ts';

const UNKNOWN_STORE = 'memstore_00000000000000000000000000';

test('without a valid key', async () => {
  for (const options of [{ apiKey: 'sk-nonsense' }, { authToken: 'sk-nonsense' }]) {
    const { client: nobody, requests } = counting(options);
    const request = nobody.beta.memoryStores.retrieve(keptStoreId);
    await refused(request, Anthropic.AuthenticationError, 401, 'authentication_error');
    assert.equal(requests(), 1);
  }
});

test('the key in either header', async () => {
  const key = client.apiKey;
  const clients = [
    new Anthropic({ apiKey: null, authToken: key }),
    new Anthropic({ apiKey: null, authToken: null, defaultHeaders: { 'x-api-key': key } }),
  ];
  for (const each of clients) assert.equal((await each.beta.memoryStores.retrieve(keptStoreId)).id, keptStoreId);
});

test('a key that may only read', async () => {
  const reader = new Anthropic({ apiKey: readOnlyKey }).beta.memoryStores;
  assert.equal((await reader.retrieve(keptStoreId)).id, keptStoreId);
  const [memory] = await all(reader.memories.list(keptStoreId));
  assert.equal(memory?.type, 'memory');
  const where = { memory_store_id: keptStoreId };
  await forbidden(reader.create({ name: 'No' }));
  await forbidden(reader.update(keptStoreId, { name: 'No' }));
  await forbidden(reader.archive(keptStoreId));
  await forbidden(reader.delete(keptStoreId));
  await forbidden(reader.memories.create(keptStoreId, { path: '/no', content: '' }));
  await forbidden(reader.memories.update(memory.id, { ...where, content: 'no' }));
  await forbidden(reader.memories.delete(memory.id, where));
  await forbidden(reader.memoryVersions.redact(memory.memory_version_id, where));
  assert.equal((await all(reader.memoryVersions.list(keptStoreId))).length, 2);
});

test('a key for one store', async () => {
  const limited = new Anthropic({ apiKey: oneStoreKey }).beta.memoryStores;
  assert.equal((await limited.retrieve(keptStoreId)).id, keptStoreId);
  assert.deepEqual((await all(limited.list())).map((store) => store.id), [keptStoreId]);
  await forbidden(limited.retrieve(await newStore()));
  await forbidden(limited.create({ name: 'No' }));
});

test('what is not there is tried once', async () => {
  const { client: counted, requests } = counting();
  await missing(counted.beta.memoryStores.retrieve(UNKNOWN_STORE));
  await missing(counted.beta.memoryStores.memories.list(UNKNOWN_STORE));
  await missing(counted.beta.memoryStores.memoryVersions.list(UNKNOWN_STORE));
  await missing(counted.beta.memoryStores.memories.create(UNKNOWN_STORE, { path: '/a', content: '' }));
  assert.equal(requests(), 4);
});

test('a conflict is tried once', async () => {
  const { client: counted, requests } = counting({ maxRetries: 3 });
  const { memories } = counted.beta.memoryStores;
  const store = await newStore();
  const made = await memories.create(store, { path: '/a', content: 'a' });
  await conflicting(memories.create(store, { path: '/a', content: 'b' }), 'memory_path_conflict_error');
  const where = { memory_store_id: store };
  const hash = '0'.repeat(64);
  const precondition = { type: 'content_sha256', content_sha256: hash } as const;
  await conflicting(
    memories.update(made.id, { ...where, content: 'b', precondition }),
    'memory_precondition_failed_error',
  );
  await conflicting(
    memories.delete(made.id, { ...where, expected_content_sha256: hash }),
    'memory_precondition_failed_error',
  );
  assert.equal(requests(), 4);
});

test('a field that the server does not know is refused', async () => {
  const wrong = { path: '/a', content: '', contents: 'misspelt' };
  await invalid(client.beta.memoryStores.memories.create(await newStore(), wrong));
});

test('a body over the limit', async () => {
  const { client: counted, requests } = counting();
  const { memories } = counted.beta.memoryStores;
  const store = await newStore();
  for (const megabytes of [1, 4, 16]) {
    const request = memories.create(store, { path: '/large', content: 'x'.repeat(megabytes * 1_048_576) });
    await refused(request, Anthropic.ContentTooLargeError, 413, 'request_too_large');
  }
  assert.equal(requests(), 3);
  assert.equal((await memories.create(store, { path: '/small', content: 'x' })).content_size_bytes, 1);
});

test('either beta may be named, both at once not', async () => {
  const store = await newStore();
  const { memoryStores, sessions } = client.beta;
  assert.equal((await memoryStores.retrieve(store, { betas: ['agent-memory-2026-07-22'] })).id, store);
  assert.equal((await memoryStores.retrieve(store, { betas: ['files-api-2025-04-14'] })).id, store);
  await invalid(memoryStores.retrieve(store, { betas: ['managed-agents-2026-04-01'] })); // the SDK adds the other one
  const headers = { 'anthropic-beta': 'managed-agents-2026-04-01' };
  assert.equal((await memoryStores.retrieve(store, {}, { headers })).id, store);
  assert.ok((await sessions.list({ betas: ['managed-agents-2026-04-01'] })).data);
});

/** Repeats a request until the server has had too many of them, and hands that answer on. */
async function tooOften(...request: Parameters<typeof fetch>): Promise<Response> {
  for (;;) {
    const response = await fetch(...request);
    if (response.status === 429) return response;
    await response.arrayBuffer();
  }
}

test('more requests than the server takes', async () => {
  const hasty = new Anthropic({ ...slowServer, maxRetries: 0, fetch: tooOften });
  await refused(hasty.beta.memoryStores.list(), Anthropic.RateLimitError, 429, 'rate_limit_error');
  let requests = 0;
  let wait: string | null = null;
  const patient = new Anthropic({
    ...slowServer,
    maxRetries: 5,
    fetch: async (...request) => {
      requests += 1;
      if (requests > 1) return fetch(...request);
      const response = await tooOften(...request);
      wait = response.headers.get('retry-after');
      return response;
    },
  });
  assert.deepEqual((await patient.beta.memoryStores.list()).data, []);
  assert.ok(requests > 1);
  assert.equal(wait, '1');
});

test('an answer can be looked at with its headers', async () => {
  const { data, response, request_id } = await client.beta.memoryStores.retrieve(keptStoreId).withResponse();
  assert.equal(data.id, keptStoreId);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'application/json');
  assert.match(request_id ?? '', /^req_/);
});

test('a request can be given up', async () => {
  const controller = new AbortController();
  const request = client.beta.memoryStores.list({}, { signal: controller.signal });
  controller.abort();
  await assert.rejects(Promise.resolve(request), Anthropic.APIUserAbortError);
  assert.ok((await client.beta.memoryStores.list()).data);
});
