/** What the programs are given: a running server, as people name one to the SDK, and what was made in it before. */

import Anthropic from '@anthropic-ai/sdk';
import type { ClientOptions } from '@anthropic-ai/sdk';

function variable(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: tests/api/test_typescript_sdk.py runs these programs`);
  return value;
}

/** Of the key that everything is done with, where nothing else is said. */
export const keyId = variable('GIVEN_KEY_ID');
/** The secret of a key that may only read. */
export const readOnlyKey = variable('GIVEN_READ_ONLY_KEY');
/** The secret of a key that may use `keptStoreId` alone. */
export const oneStoreKey = variable('GIVEN_ONE_STORE_KEY');
/** A server that takes two requests in a second, with a key of its own. */
export const slowServer = { baseURL: variable('GIVEN_SLOW_URL'), apiKey: variable('GIVEN_SLOW_KEY') };
/** A store in which `keptSessionId` wrote one memory, and a person another. */
export const keptStoreId = variable('GIVEN_STORE_ID');
export const keptSessionId = variable('GIVEN_SESSION_ID');
/** An empty directory. */
export const scratch = variable('GIVEN_SCRATCH');

/** Made as people make it: address and key are in ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY. */
export const client = new Anthropic();

/** A client that counts its requests, repetitions included. */
export function counting(options: ClientOptions = {}): { client: Anthropic; requests: () => number } {
  let requests = 0;
  const counted = new Anthropic({
    ...options,
    fetch: (input, init) => {
      requests += 1;
      return fetch(input, init);
    },
  });
  return { client: counted, requests: () => requests };
}

let stores = 0;

/** A new, empty store; returns its id. */
export async function newStore(name = `Store ${process.pid} ${(stores += 1)}`): Promise<string> {
  return (await client.beta.memoryStores.create({ name })).id;
}
