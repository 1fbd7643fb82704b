/** What `dlprof --reports=html` puts into the file; written by aggregator/html_report. */

import type { UnknownReasons } from "../api/lists";
import type { AggregationsRow, Profile } from "../api/types";

export interface ColumnInfo {
  readonly name: string;
  readonly kind: "text" | "number" | "boolean" | "choice" | "identifier";
  readonly is_text: boolean;
  /** Its numbers have a fraction, even where that is 0. */
  readonly is_real: boolean;
  readonly is_searched: boolean;
  /** Its texts are our own sentences, of which the report has translations. */
  readonly is_sentence: boolean;
}

export interface TableInfo {
  readonly name: string;
  readonly ordering: string;
  readonly columns: readonly ColumnInfo[];
}

/** Numbers; texts are places in `strings`. Steps are each added to the one before. */
export type EncodedColumn = readonly (number | null)[] | { readonly steps: readonly number[] };

export interface EncodedTable {
  /** Rows that the profile has; the columns may hold fewer. */
  readonly count: number;
  readonly unknown: UnknownReasons;
  readonly columns: readonly EncodedColumn[];
}

export interface EncodedIteration {
  readonly ops: EncodedTable;
  readonly kernels: EncodedTable;
  /** Launches of each op; there when `kernels` does not hold all of the iteration's. */
  readonly launches_of_op?: Readonly<Record<string, number>>;
}

export interface DomainData {
  readonly tables: Readonly<Record<string, EncodedTable>>;
  readonly op_kernels: Readonly<Record<string, EncodedTable>>;
  /** Id of the element that holds the iteration. */
  readonly iterations: Readonly<Record<string, string>>;
}

/** What holds sentences, in one language. */
export interface LocalizedData {
  readonly profile: Profile;
  readonly aggregation: AggregationsRow;
  readonly domains: Readonly<
    Record<
      string,
      {
        readonly objects: Readonly<Record<string, unknown>>;
        readonly figures: Readonly<Record<string, unknown>>;
      }
    >
  >;
}

export interface ReportData {
  readonly format: number;
  /** Rows that the report holds of a table, at most. */
  readonly rows: number;
  readonly tables: Readonly<Record<string, TableInfo>>;
  readonly domains: Readonly<Record<string, DomainData>>;
  readonly strings: readonly string[];
  /** By language: translations of the sentences about tables, by the English sentence. */
  readonly sentences: Readonly<Record<string, Readonly<Record<string, string>>>>;
}
