/** From a row of any table to the timeline: made of the columns that the row has. */

import { selectionText } from "../lib/timeline";
import { currentQuery } from "../state/location";
import { patchForView, type QueryPatch } from "../state/query";
import { timelineAt } from "../ui/PageLink";

type Cells = Readonly<Record<string, unknown>>;

function text(cells: Cells, name: string): string | undefined {
  const value = cells[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

function number(cells: Cells, name: string): number | null {
  const value = cells[name];
  return typeof value === "number" ? value : null;
}

/** The time that a row is about; null: it is about more than one. */
function timeOf(cells: Cells): readonly [start: number, length: number] | null {
  const start = number(cells, "start_time_ns");
  if (start === null) return null;
  const stop = number(cells, "stop_time_ns");
  const length = stop === null ? number(cells, "duration_ns") : stop - start;
  const found = length ?? number(cells, "gpu_time_ns");
  return found === null ? null : [start, Math.max(found, 1)];
}

/**
 * The timeline with what a row is about; null: it is about nothing that a timeline shows.
 *
 * A row with a time is shown there. Of others the longest event is; the page then leads to the
 * first, the median and every other one.
 */
export function timelineOf(row: unknown): QueryPatch | null {
  const cells = row as Cells;
  const time = timeOf(cells);
  if (time !== null) return timelineAt(...time);
  const kernel = text(cells, "kernel_long_name") ?? text(cells, "kernel_name");
  const op = text(cells, "op_id");
  const selection = {
    ...(op === undefined ? {} : { op }),
    ...(kernel === undefined ? {} : { kernel }),
    ...(op === undefined && kernel === undefined ? ofSeveralOps(cells) : {}),
  };
  if (Object.keys(selection).length === 0) return null;
  return selectedInTimeline(selection);
}

function ofSeveralOps(cells: Cells): Readonly<Record<string, string>> {
  const [group, type] = [text(cells, "group_name"), text(cells, "op_type")];
  if (group?.startsWith("/")) return { group };
  return type === undefined ? {} : { op_type: type };
}

/** The timeline with all events of a selection, at the longest of them. */
export function selectedInTimeline(selection: Readonly<Record<string, string>>): QueryPatch {
  return {
    ...patchForView(currentQuery(), "timeline"),
    "timeline.show": selectionText(selection),
    "timeline.at": "longest",
  };
}
