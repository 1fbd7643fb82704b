/** The profile, aggregation and domain of the page: chosen by the address, passed to all views. */

import { createContext } from "preact";
import { useContext, useRef } from "preact/hooks";
import { ApiError, apiUrl, type Params } from "../api/client";
import type { AggregationsRow, Profile, ProfileItem } from "../api/types";
import { type Resource, useResource } from "../api/useResource";
import { t } from "../i18n";
import type { Query } from "./query";

export interface Scope {
  readonly profiles: readonly ProfileItem[];
  readonly profile: Profile;
  readonly aggregations: readonly AggregationsRow[];
  readonly aggregation: AggregationsRow;
  readonly domain: string;
  readonly reloadAggregations: () => void;
}

export const ScopeContext = createContext<Scope | null>(null);

export function useScope(): Scope {
  const scope = useContext(ScopeContext);
  if (scope === null) throw new Error("useScope outside of ScopeContext");
  return scope;
}

/** The address of a resource of the chosen aggregation, in the chosen domain. */
export function scopedUrl(scope: Scope, path: string, params: Params = {}): string {
  const base = `profiles/${scope.profile.id}/aggregations/${scope.aggregation.id}/`;
  return apiUrl(base + path, { domain: scope.domain, ...params });
}

/** A resource of the chosen aggregation. */
export function useScoped<T>(path: string, params: Params = {}): Resource<T> {
  return useResource<T>(scopedUrl(useScope(), path, params));
}

export type ScopeResult =
  | { readonly state: "loading" }
  | { readonly state: "empty" }
  | {
      readonly state: "error";
      readonly error: ApiError;
      readonly retry: () => void;
      /** What else the server has. */
      readonly profiles: readonly ProfileItem[];
    }
  | { readonly state: "ready"; readonly scope: Scope };

function badAddress(message: string, hint: string): ApiError {
  return new ApiError(400, { code: "BAD_ADDRESS", message, hint });
}

function names(values: readonly (string | number)[]): string {
  return values.join(", ");
}

/** The aggregation of the steady range, which an import adds; null: there is none. */
export function steadyOf(aggregations: readonly AggregationsRow[]): AggregationsRow | null {
  return aggregations.find((aggregation) => aggregation.is_steady === true) ?? null;
}

/**
 * The aggregation in the address; without one, the default of the profile, else the newest.
 *
 * An import adds that of the steady range last, so a profile opens with it until someone aggregates
 * another range.
 */
export function chooseAggregation(
  wanted: string | undefined,
  aggregations: readonly AggregationsRow[],
): AggregationsRow | ApiError {
  const newest = aggregations.reduce<AggregationsRow | undefined>(
    (best, candidate) => (best === undefined || candidate.id > best.id ? candidate : best),
    undefined,
  );
  if (newest === undefined) {
    return badAddress(
      t("This profile has no aggregation."),
      t("Create one: dlprof --database=FILE --force=true"),
    );
  }
  const preferred = aggregations.find((candidate) => candidate.is_default === true);
  if (wanted === undefined) return preferred ?? newest;
  const found = aggregations.find((candidate) => String(candidate.id) === wanted);
  const known = names(aggregations.map((candidate) => candidate.id));
  return (
    found ??
    badAddress(
      t("There is no aggregation “{wanted}” in this profile.", { wanted }),
      t("It has: {known}.", { known }),
    )
  );
}

/** The domain in the address; without one, the first. */
export function chooseDomain(
  wanted: string | undefined,
  domains: readonly string[],
): string | ApiError {
  const first = domains[0] ?? "default-domain";
  if (wanted === undefined || wanted === first || domains.includes(wanted)) return wanted ?? first;
  return badAddress(
    t("There is no domain “{wanted}” in this profile.", { wanted }),
    t("It has: {known}.", { known: names(domains) }),
  );
}

export function chooseProfile(
  wanted: string | undefined,
  profiles: readonly ProfileItem[],
): ProfileItem | ApiError | null {
  const first = profiles[0];
  if (first === undefined) return null;
  if (wanted === undefined) return first;
  const found = profiles.find((candidate) => String(candidate.id) === wanted);
  // The page of the error lists those that there are.
  return found ?? badAddress(t("There is no profile “{wanted}” on this server.", { wanted }), "");
}

interface Answers {
  readonly profiles: readonly ProfileItem[];
  readonly profile: Profile;
  readonly aggregations: Resource<{ results: readonly AggregationsRow[] }>;
}

/** The profile, aggregation and domain in the address, if they exist. */
function chooseScope(query: Query, answers: Answers, retry: () => void): ScopeResult {
  const { profiles, profile, aggregations } = answers;
  const list = aggregations.data?.results ?? [];
  const aggregation = chooseAggregation(query.get("aggregation"), list);
  // A new aggregation may be asked for before the reloaded list has come.
  if (aggregation instanceof ApiError && aggregations.isLoading) return { state: "loading" };
  if (aggregation instanceof ApiError) {
    return { state: "error", error: aggregation, retry, profiles };
  }
  const domain = chooseDomain(query.get("domain"), profile.domains);
  if (domain instanceof ApiError) return { state: "error", error: domain, retry, profiles };
  const reloadAggregations = aggregations.reload;
  const scope = { profiles, profile, aggregations: list, aggregation, domain, reloadAggregations };
  return { state: "ready", scope };
}

function firstError(
  resources: readonly Resource<unknown>[],
  profiles: readonly ProfileItem[],
): ScopeResult | null {
  const failed = resources.find((resource) => resource.error !== null);
  if (failed?.error == null) return null;
  const retry = () => {
    for (const resource of resources) if (resource.error !== null) resource.reload();
  };
  return { state: "error", error: failed.error, retry, profiles };
}

/** Where a profile is in the API; null while it is not known which. */
function profilePath(chosen: ProfileItem | ApiError | null): string | null {
  return chosen === null || chosen instanceof ApiError ? null : `profiles/${chosen.id}/`;
}

/** Whether everything in both is the same. */
export function isSameScope(one: Scope, other: Scope): boolean {
  return (Object.keys(one) as (keyof Scope)[]).every((key) => Object.is(one[key], other[key]));
}

/**
 * The scope of the address.
 *
 * Another address seldom has another scope: it stays the same object then, as all that uses it is
 * drawn again, or asked for again, when it changes.
 */
export function useScopeResult(query: Query): ScopeResult {
  const result = useLoadedScope(query);
  const kept = useRef<Scope | null>(null);
  if (result.state !== "ready") return result;
  if (kept.current === null || !isSameScope(kept.current, result.scope)) {
    kept.current = result.scope;
  }
  return { state: "ready", scope: kept.current };
}

/** Loads what the frame needs and checks the address against it. */
function useLoadedScope(query: Query): ScopeResult {
  const all = useResource<{ results: readonly ProfileItem[] }>(apiUrl("profiles/"));
  const profiles = all.data?.results ?? [];
  const chosen = chooseProfile(query.get("profile"), profiles);
  const path = all.data === null ? null : profilePath(chosen);
  const profile = useResource<Profile>(path === null ? null : apiUrl(path));
  const listUrl = path === null ? null : apiUrl(`${path}aggregations/`, { page_size: 200 });
  const aggregations = useResource<{ results: readonly AggregationsRow[] }>(listUrl);

  const error = firstError([all, profile, aggregations], profiles);
  if (error !== null) return error;
  if (all.data === null) return { state: "loading" };
  if (chosen === null) return { state: "empty" };
  if (chosen instanceof ApiError) {
    return { state: "error", error: chosen, retry: all.reload, profiles };
  }
  // Answers that belong to the profile shown before do not count, whichever comes first.
  if (profile.data?.id !== chosen.id) return { state: "loading" };
  if (aggregations.data === null || aggregations.dataUrl !== listUrl) return { state: "loading" };
  return chooseScope(query, { profiles, profile: profile.data, aggregations }, all.reload);
}
