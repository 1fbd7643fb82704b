/** The items of a window: asked for with room at both sides, so that panning shows something at once. */

import { useEffect, useState } from "preact/hooks";
import { type ApiError, getJson, isAbort, toApiError } from "../../api/client";
import type { TimelineItems } from "../../api/types";
import { lengthOf, type Span, within } from "../../lib/timeline";
import { scopedUrl, useScope } from "../../state/scope";

const PAUSE_MS = 40;
const MOST_PIXELS = 8_192;
/** A window this many times shorter than the one asked for is asked for anew. */
const FINER = 2;

interface Answer {
  readonly items: TimelineItems;
  readonly keys: string;
  readonly pixelNs: number;
}

export function useItems(
  keys: readonly string[],
  span: Span,
  width: number,
  all: Span,
): { items: TimelineItems | null; error: ApiError | null; isLoading: boolean } {
  const scope = useScope();
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const key = keys.join(",");
  const needs = width > 0 && key !== "" && !holds(answer, key, span, width, all);
  const { low, high } = span;
  useEffect(() => {
    if (!needs) return;
    const controller = new AbortController();
    const room = high - low;
    const asked = within({ low: low - room, high: high + room }, all);
    const pixels = Math.min(Math.ceil((width * lengthOf(asked)) / room), MOST_PIXELS);
    const timer = window.setTimeout(() => {
      const url = scopedUrl(scope, "timeline/items/", {
        lanes: key,
        start_ns: Math.floor(asked.low),
        stop_ns: Math.ceil(asked.high),
        pixels,
      });
      getJson<TimelineItems>(url, controller.signal)
        .then((items) => {
          setAnswer({ items, keys: key, pixelNs: lengthOf(asked) / pixels });
          setError(null);
        })
        .catch((failure: unknown) => {
          if (!isAbort(failure)) setError(toApiError(failure));
        });
    }, PAUSE_MS);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [needs, scope, key, low, high, width, all]);
  return { items: answer?.items ?? null, error, isLoading: needs };
}

/** Whether an answer has all that a window shows, finely enough. */
function holds(answer: Answer | null, key: string, span: Span, width: number, all: Span): boolean {
  if (answer === null || answer.keys !== key) return false;
  const { items, pixelNs } = answer;
  const wanted = lengthOf(span) / width;
  return (
    items.start_ns <= Math.max(span.low, all.low) &&
    items.stop_ns >= Math.min(span.high, all.high) - 1 &&
    pixelNs <= wanted * 1.01 &&
    wanted <= pixelNs * FINER
  );
}
