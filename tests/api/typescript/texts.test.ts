/** What is written comes back byte for byte, whatever it is; and what is no such text is refused. */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';

import { all, invalid, sha256 } from './checks.ts';
import { client, newStore } from './given.ts';

const { memories, memoryVersions } = client.beta.memoryStores;

let store: string;
before(async () => {
  store = await newStore();
});

const MAX_BYTES = 102_400;

const TEXTS: Record<string, string> = {
  nothing: '',
  'one newline': '\n',
  'no last newline': 'a\nb',
  'CRLF and lone CR': 'a\r\nb\rc\r\n',
  'a byte order mark': '\uFEFFtext\uFEFF',
  emoji: '👩‍👩‍👧‍👦 🇩🇪 👍🏽 🎉',
  CJK: '記憶 기억 记忆 𠮷野家',
  'both forms of é': '\u00e9 e\u0301',
  'right to left': 'שלום \u202eabc\u202c',
  'what JSON escapes': '"\\/\b\f\n\r\t\u0001\u2028\u2029</script>',
  NUL: 'a\0b',
  'JSON itself': '{"content": null}',
  'non-characters': '\uFFFE\uFFFF\u{10FFFF}',
};

for (const [what, text] of Object.entries(TEXTS)) {
  test(`content: ${what}`, async () => {
    const path = `/texts/${what.replaceAll(' ', '-')}.md`;
    const made = await memories.create(store, { path, content: text, view: 'full' });
    assert.equal(made.content, text);
    assert.equal(made.content_size_bytes, Buffer.byteLength(text));
    assert.equal(made.content_sha256, sha256(text));
    const where = { memory_store_id: store };
    assert.equal((await memories.retrieve(made.id, where)).content, text);
    assert.equal((await memoryVersions.retrieve(made.memory_version_id, where)).content, text);
    const changed = await memories.update(made.id, { ...where, content: `${text}x`, view: 'full' });
    assert.equal(changed.content, `${text}x`);
    const back = await memories.update(made.id, { ...where, content: text, view: 'full' });
    assert.equal(back.content, text);
  });
}

test('content of the largest size, and one byte more', async () => {
  const largest = [
    'x'.repeat(MAX_BYTES),
    '🎉'.repeat(MAX_BYTES / 4),
    '\u0001'.repeat(MAX_BYTES), // six bytes each in JSON
  ];
  for (const [index, text] of largest.entries()) {
    const made = await memories.create(store, { path: `/large/${index}`, content: text });
    assert.equal(made.content_size_bytes, MAX_BYTES);
    assert.equal((await memories.retrieve(made.id, { memory_store_id: store })).content, text);
    await invalid(memories.update(made.id, { memory_store_id: store, content: `${text}x` }));
    await invalid(memories.create(store, { path: '/large/more', content: `${text}x` }));
  }
  assert.equal((await all(memories.list(store, { path_prefix: '/large/' }))).length, largest.length);
});

test('content that UTF-8 cannot hold is refused', async () => {
  await invalid(memories.create(store, { path: '/surrogate.md', content: 'a\ud83cb' }));
});

test('paths of any script, as they are', async () => {
  const paths = ['/ノート/記憶 🎉.md', '/caf\u00e9/%2e%2e/50%_+&?#.md', '/a b/"quoted"\\.md', '/x/\u{1F600}', '/x/\uFF5E'];
  const own = await newStore();
  for (const path of paths) {
    const made = await memories.create(own, { path, content: path });
    assert.equal(made.path, path);
    const prefix = path.slice(0, path.lastIndexOf('/') + 1);
    const found = await all(memories.list(own, { path_prefix: prefix, view: 'full' }));
    assert.ok(found.some((item) => item.type === 'memory' && item.path === path && item.content === path));
  }
  const listed = (await all(memories.list(own, { limit: 1 }))).map((item) => item.path);
  assert.deepEqual(listed, [...paths].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
});

test('paths that break a rule are refused', async () => {
  const bad = [
    '',
    'relative.md',
    '/',
    '/a/',
    '/a//b',
    '/a/./b',
    '/a/../b',
    '/cafe\u0301.md', // not NFC
    '/a\nb',
    '/a\u200bb', // a format character
    '/a\u2028b',
    '/a\0b',
    '/a\ud83cb',
    `/${'x'.repeat(1_024)}`,
    '/d'.repeat(21),
  ];
  for (const path of bad) await invalid(memories.create(store, { path, content: '' }));
  const longest = `/${'x'.repeat(1_023)}`;
  assert.equal((await memories.create(store, { path: longest, content: '' })).path, longest);
});
