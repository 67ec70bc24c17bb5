/** A reporter for node's test runner: a line of JSON for each case, which pytest shows as its own. */

import { inspect } from 'node:util';

import type { TestEvent } from 'node:test/reporters';

/** What failed, without the frames of the runner and of node itself. */
function described(error: Error): string {
  const cause = error.cause instanceof Error ? error.cause : error;
  return inspect(cause, { depth: 6, maxStringLength: 2_000 })
    .split('\n')
    .filter((line) => !/^\s+at .*node:internal/.test(line))
    .join('\n');
}

const line = (name: string, failure: string | null, left_out = false) =>
  `${JSON.stringify({ name, failure, left_out })}\n`;

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of events) {
    if (event.type === 'test:pass') {
      yield line(event.data.name, null, Boolean(event.data.skip ?? event.data.todo));
    } else if (event.type === 'test:fail') {
      yield line(event.data.name, described(event.data.details.error));
    } else if (event.type === 'test:diagnostic' && /^(Error|Warning)\b/.test(event.data.message)) {
      yield line('outside of every case', event.data.message); // such as a promise that nobody waits for
    }
  }
}
