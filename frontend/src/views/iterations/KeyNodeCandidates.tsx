/** The candidates for the key node that the import compared, best first. */

import { useState } from "preact/hooks";
import type { KeyNodeCandidatesRow } from "../../api/types";
import { t } from "../../i18n";
import { formatInt, formatPct } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { Name } from "../../ui/Name";
import { ErrorNote, Unknown } from "../../ui/states";

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
  return (
    <section class="candidates">
      <h3>{t("Candidates")}</h3>
      <table class="facts-table">
        <caption class="visually-hidden">{t("Candidates for the key node")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("Name")}</th>
            <th scope="col">{t("Kind")}</th>
            <th scope="col" class="align-right">
              {t("Iterations")}
            </th>
            <th scope="col" class="align-right" title={t("How even the times between them are")}>
              {t("Evenness")}
            </th>
            <th
              scope="col"
              class="align-right"
              title={t("How well it marks the steps of the loop, from 0 to 100")}
            >
              {t("Confidence")}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.filter(hasText).map((row) => (
            <Candidate
              key={row.id}
              row={row}
              mark={marks.get(row.id) ?? null}
              isPicked={row === shown}
              onPick={(keyNode) => {
                setPickedRow(row.id);
                onPick(keyNode, row.name ?? keyNode);
              }}
            />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Candidate(props: {
  row: KeyNodeCandidatesRow;
  mark: string | null;
  isPicked: boolean;
  onPick: (keyNode: string) => void;
}) {
  const { row, mark, isPicked, onPick } = props;
  const { key_node: keyNode } = row;
  return (
    <tr>
      <th scope="row">
        <label class="candidate-name">
          <input
            type="radio"
            name="candidate"
            checked={isPicked}
            disabled={keyNode === null}
            onChange={() => {
              if (keyNode !== null) onPick(keyNode);
            }}
          />
          {row.name === null ? <Unknown /> : <Name name={row.name} />}
          {mark !== null && <span class="tag">{mark}</span>}
        </label>
      </th>
      <td>{row.kind === null ? <Unknown /> : (KINDS[row.kind] ?? row.kind)}</td>
      <td class="align-right">
        {row.iterations === null ? <Unknown /> : formatInt(row.iterations)}
      </td>
      <td class="align-right">
        {row.evenness_pct === null ? <Unknown /> : `${formatPct(row.evenness_pct)} %`}
      </td>
      <td class="align-right">{row.score === null ? <Unknown /> : formatInt(row.score)}</td>
    </tr>
  );
}
