/** What the form of the Iterations view holds, and whether it can be sent. Pure functions only. */

import type { AggregationsRow, NewAggregation } from "../../api/types";
import { t } from "../../i18n";
import type { Query } from "../../state/query";

export interface Draft {
  readonly start: number | null;
  readonly stop: number | null;
  readonly keyNode: string | null;
  /** What the key node was picked as, where that is another name; null: the same. */
  readonly keyName: string | null;
}

/** Index of the last interval of the profile; null when not known. */
export type LastIndex = number | null;

function readIndex(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/** What is typed (kept in the address) over what the aggregation was made with. */
export function readDraft(query: Query, aggregation: AggregationsRow): Draft {
  return {
    start: readIndex(query.get("start")) ?? aggregation.iter_start,
    stop: readIndex(query.get("stop")) ?? aggregation.iter_stop,
    keyNode: query.get("key_node") ?? aggregation.key_node,
    keyName: query.get("key_name") ?? null,
  };
}

export function isChanged(draft: Draft, aggregation: AggregationsRow): boolean {
  return (
    draft.start !== aggregation.iter_start ||
    draft.stop !== aggregation.iter_stop ||
    (draft.keyNode ?? "") !== (aggregation.key_node ?? "")
  );
}

/** Why the draft cannot be sent; null when it can. */
export function draftProblem(
  draft: Draft,
  aggregation: AggregationsRow,
  last: LastIndex,
): string | null {
  const { start, stop } = draft;
  if (start === null || stop === null) return t("Type a start and a stop iteration.");
  if (start > stop) return t("The start iteration is after the stop iteration.");
  // Another key node gives other iterations, how many is only known afterwards.
  const hasSameKeyNode = (draft.keyNode ?? "") === (aggregation.key_node ?? "");
  if (hasSameKeyNode && last !== null && stop > last) {
    return t("The last iteration of this profile is {last}.", { last });
  }
  return null;
}

/** Only what differs is sent, so that defaults stay the server's. */
export function requestOf(draft: Draft, aggregation: AggregationsRow): NewAggregation {
  const hasNewKeyNode = (draft.keyNode ?? "") !== (aggregation.key_node ?? "");
  const hasRange =
    !hasNewKeyNode ||
    draft.start !== aggregation.iter_start ||
    draft.stop !== aggregation.iter_stop;
  return {
    // The range of one key node says nothing about the iterations of another.
    ...(hasRange ? { iter_start: draft.start, iter_stop: draft.stop } : {}),
    ...(draft.keyNode === null || (!hasNewKeyNode && draft.keyNode === "")
      ? {}
      : { key_node: draft.keyNode }),
  };
}

/** A step of the spinner or the wheel, kept inside of the profile. */
export function stepped(value: number | null, step: number, last: LastIndex): number {
  const next = (value ?? 0) + step;
  return Math.max(0, last === null ? next : Math.min(last, next));
}
