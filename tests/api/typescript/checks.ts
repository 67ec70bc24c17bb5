/** What several programs check alike. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

import Anthropic, { APIError } from '@anthropic-ai/sdk';

type ErrorClass = abstract new (...given: never[]) => APIError;

/** The error of a refusal, which has the form that every refusal has. */
export async function refused(
  request: PromiseLike<unknown>,
  wanted: ErrorClass,
  status: number,
  type: string,
): Promise<Record<string, unknown>> {
  const error = await Promise.resolve(request).then(
    (answer) => assert.fail(`not refused: ${JSON.stringify(answer)?.slice(0, 500)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof APIError)) throw error;
  assert.equal(error.constructor, wanted, error.message);
  assert.equal(error.status, status);
  assert.equal(error.type, type);
  assert.ok(error.apiMessage, 'an error says what is wrong');
  const body = error.error as { type: string; error: Record<string, unknown>; request_id: string };
  assert.deepEqual(Object.keys(body).sort(), ['error', 'request_id', 'type']);
  assert.equal(body.type, 'error');
  assert.match(body.request_id, /^req_/);
  assert.equal(body.request_id, error.requestID);
  return body.error;
}

export const invalid = (request: PromiseLike<unknown>) =>
  refused(request, Anthropic.BadRequestError, 400, 'invalid_request_error');
export const missing = (request: PromiseLike<unknown>) =>
  refused(request, Anthropic.NotFoundError, 404, 'not_found_error');
export const forbidden = (request: PromiseLike<unknown>) =>
  refused(request, Anthropic.PermissionDeniedError, 403, 'permission_error');
export const conflicting = (request: PromiseLike<unknown>, type: string) =>
  refused(request, Anthropic.ConflictError, 409, type);

/** All items of a list, every page of it. */
export async function all<Item>(list: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of list) found.push(item);
  return found;
}

/** The hash of a text as memories have it. */
export const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex');

/** A time as records have it, in UTC, and of these last minutes. */
export function recent(time: string | null | undefined): void {
  assert.match(time ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  const age = Date.now() - Date.parse(time ?? '');
  assert.ok(age > -5_000 && age < 600_000, `${time} is not now`);
}
