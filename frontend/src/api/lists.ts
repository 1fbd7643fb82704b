/** Shapes of replies that many replies have in common. */

import type { Error as ErrorReply, Job } from "./types";

/** An error as the API replies it; the page's own errors have no details. */
export type ApiErrorBody = Omit<ErrorReply, "details"> & Partial<Pick<ErrorReply, "details">>;

/** Why a field of the same object is null. */
export type UnknownReasons = Readonly<Record<string, string>>;

/** How much of a table a report in one file holds, whatever the filters. */
export interface Cut {
  readonly held: number;
  readonly count: number;
}

/** One page of a list. */
export interface ListPage<Row> {
  readonly count: number;
  readonly page: number;
  readonly page_size: number;
  readonly ordering: string;
  readonly results: readonly Row[];
  /** Columns that this database does not hold. */
  readonly unknown?: UnknownReasons;
  /** In a report, which holds the first rows of a table only. */
  readonly cut?: Cut;
}

export type JobState = Job["state"];
