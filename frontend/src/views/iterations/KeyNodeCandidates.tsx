/** The candidates for the key node that the import compared, best first. */

import { useState } from "preact/hooks";
import type { KeyNodeCandidatesRow } from "../../api/types";
import { t } from "../../i18n";
import { formatInt, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { ColumnsTable, RIGHT } from "../../ui/ColumnsTable";
import { Name } from "../../ui/Name";
import { ErrorNote, known } from "../../ui/states";

export const KINDS: Readonly<Record<string, string>> = {
  step: t("step range"),
  "counted range": t("counted range"),
  program: t("program"),
  "data loader": t("data loader"),
  gradients: t("gradients"),
  optimizer: t("optimizer"),
  forward: t("forward pass"),
  range: t("range"),
  op: t("op"),
};

const SHOWN = 10;

/** Marks by row: the chosen candidate, others of the same steps, and the best one of other steps. */
export function marksOf(rows: readonly KeyNodeCandidatesRow[]): ReadonlyMap<number, string> {
  const sorted = rows.toSorted((a, b) => a.id - b.id);
  const chosen = sorted.filter((row) => row.is_chosen === true);
  const second = sorted.find((row) => row.is_chosen !== true);
  const marks = new Map<number, string>();
  for (const row of chosen) marks.set(row.id, row === chosen[0] ? t("chosen") : t("same steps"));
  if (second !== undefined) marks.set(second.id, t("runner-up"));
  return marks;
}

/** Nothing, where the database has no candidates. */
export function KeyNodeCandidates(props: {
  /** The key node that is picked now. */
  picked: string | null;
  /** Only candidates that contain it are listed. */
  search: string;
  onPick: (keyNode: string, name: string) => void;
}) {
  const { picked, search, onPick } = props;
  const found = useScoped<{ results: readonly KeyNodeCandidatesRow[] }>("key-node-candidates/", {
    page_size: SHOWN,
  });
  const [pickedRow, setPickedRow] = useState<number | null>(null);
  if (found.error !== null) return <ErrorNote error={found.error} onRetry={found.reload} />;
  const rows = found.data?.results ?? [];
  if (rows.length === 0) return null;
  const marks = marksOf(rows);
  const own = rows.find((row) => row.id === pickedRow && row.key_node === picked);
  const text = search.trim().toLowerCase();
  const hasText = (row: KeyNodeCandidatesRow) => (row.name ?? "").toLowerCase().includes(text);
  const shown = own ?? rows.find((row) => picked !== null && row.key_node === picked);
  const nameCell = (row: KeyNodeCandidatesRow) => (
    <label class="candidate-name">
      <input
        type="radio"
        name="candidate"
        checked={row === shown}
        disabled={row.key_node === null}
        onChange={() => {
          if (row.key_node === null) return;
          setPickedRow(row.id);
          onPick(row.key_node, row.name ?? row.key_node);
        }}
      />
      {known(row.name, (name) => (
        <Name name={name} />
      ))}
      {marks.has(row.id) && <span class="tag">{marks.get(row.id)}</span>}
    </label>
  );
  return (
    <section class="candidates">
      <h3>{t("Candidates")}</h3>
      <ColumnsTable
        class="facts-table"
        caption={t("Candidates for the key node")}
        rows={rows.filter(hasText)}
        rowKey={(row) => row.id}
        columns={[
          [t("Name"), nameCell, { isHead: true }],
          [t("Kind"), ({ kind }) => known(kind, (text) => KINDS[text] ?? text)],
          [t("Iterations"), ({ iterations }) => known(iterations, formatInt), RIGHT],
          [
            t("Evenness"),
            ({ evenness_pct: pct }) => known(pct, (value) => `${formatPct(value)} %`),
            { ...RIGHT, hint: t("How even the times between them are") },
          ],
          [
            t("Confidence"),
            ({ score }) => known(score, formatInt),
            { ...RIGHT, hint: t("How well it marks the steps of the loop, from 0 to 100") },
          ],
        ]}
      />
    </section>
  );
}
