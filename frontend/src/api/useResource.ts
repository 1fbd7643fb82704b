/** Fetches a resource for a component: cached, aborted when no longer wanted, stale while loading. */

import { useCallback, useLayoutEffect, useState } from "preact/hooks";
import { type ApiError, getJson, isAbort, toApiError } from "./client";
import { isServerLost, onConnection } from "./connection";

export interface Resource<T> {
  /** The last answer; while the next one loads it is still the one before (see `isStale`). */
  readonly data: T | null;
  readonly error: ApiError | null;
  readonly isLoading: boolean;
  /** A newer answer is on its way: `data` is from before a reload or of an earlier address. */
  readonly isStale: boolean;
  /** The address that `data` came from. */
  readonly dataUrl: string | null;
  readonly reload: () => void;
}

interface Held<T> {
  /** The address of the last answer; null when it is to be asked again. */
  readonly url: string | null;
  readonly data: T | null;
  readonly dataUrl: string | null;
  readonly error: ApiError | null;
}

const CACHE_LIMIT = 200;

/** Answers by address. An aggregation never changes, so a page that was seen is shown at once. */
const cache = new Map<string, unknown>();

function remember(url: string, data: unknown): void {
  cache.delete(url);
  cache.set(url, data);
  const oldest = cache.keys().next();
  if (cache.size > CACHE_LIMIT && !oldest.done) cache.delete(oldest.value);
}

/** Forgets answers whose address holds `part`: what a finished job has made outdated. */
export function forgetResources(part: string): void {
  for (const url of cache.keys()) if (url.includes(part)) cache.delete(url);
}

interface Flight {
  readonly promise: Promise<unknown>;
  readonly controller: AbortController;
  users: number;
}

/** Requests under way: components that want the same address share one. */
const flights = new Map<string, Flight>();

function board(url: string): Flight {
  const running = flights.get(url);
  if (running !== undefined) {
    running.users += 1;
    return running;
  }
  const controller = new AbortController();
  const promise = getJson<unknown>(url, controller.signal).then((data) => {
    remember(url, data);
    return data;
  });
  const flight: Flight = { promise, controller, users: 1 };
  flights.set(url, flight);
  const land = () => {
    if (flights.get(url) === flight) flights.delete(url);
  };
  promise.then(land, land);
  return flight;
}

/** The last component that leaves aborts the request. */
function leave(url: string, flight: Flight): void {
  flight.users -= 1;
  if (flight.users > 0) return;
  flight.controller.abort();
  if (flights.get(url) === flight) flights.delete(url);
}

/**
 * The resource at `url`; nothing is fetched while `url` is null.
 *
 * When the address changes the request before it is aborted, and its data stays until the new
 * data has come, so that a table does not flash empty between two pages.
 */
export function useResource<T>(url: string | null): Resource<T> {
  const [held, setHeld] = useState<Held<T>>(() => heldFromCache<T>(url));
  const [attempt, setAttempt] = useState(0);

  // Before the frame is painted: the request need not wait for that.
  // biome-ignore lint/correctness/useExhaustiveDependencies: `attempt` repeats the request for the same address
  useLayoutEffect(() => {
    if (url === null) return;
    if (cache.has(url)) {
      setHeld({ url, data: cache.get(url) as T, dataUrl: url, error: null });
      return;
    }
    const flight = board(url);
    // Other components may still wait for the request when this one has changed its address.
    let isWanted = true;
    let stopWaiting = () => {};
    flight.promise
      .then((data) => {
        if (isWanted) setHeld({ url, data: data as T, dataUrl: url, error: null });
      })
      .catch((error: unknown) => {
        if (!isWanted || isAbort(error)) return;
        // The page says so once, and asks again when the server is back.
        if (isServerLost()) stopWaiting = onConnection(() => setAttempt((count) => count + 1));
        else setHeld({ url, data: null, dataUrl: null, error: toApiError(error) });
      });
    return () => {
      isWanted = false;
      stopWaiting();
      leave(url, flight);
    };
  }, [url, attempt]);

  const reload = useCallback(() => {
    if (url !== null) cache.delete(url);
    setHeld((now) => ({ ...now, error: null, url: null }));
    setAttempt((count) => count + 1);
  }, [url]);

  if (url === null) {
    return { data: null, dataUrl: null, error: null, isLoading: false, isStale: false, reload };
  }
  const isCurrent = held.url === url;
  return {
    data: held.data,
    error: isCurrent ? held.error : null,
    isLoading: !isCurrent,
    isStale: !isCurrent && held.data !== null,
    dataUrl: held.dataUrl,
    reload,
  };
}

function heldFromCache<T>(url: string | null): Held<T> {
  if (url !== null && cache.has(url)) {
    return { url, data: cache.get(url) as T, dataUrl: url, error: null };
  }
  return { url: null, data: null, dataUrl: null, error: null };
}
