/** The evidence of a finding as a small picture: what stands out, at a glance. */

import { t } from "../../i18n";
import { type Scale, sumCount, sumText } from "../../lib/perStep";
import { durationText, formatPct } from "../../lib/units";
import type { EvidenceItem } from "./advice";
import { Spark } from "./Spark";

const MOST = 4;

const TONES: Readonly<Record<string, string>> = {
  kernel: "part-non_tc",
  rank: "part-communication",
  op: "part-gpu",
  before: "part-other",
  iteration: "part-outside",
  gpu: "part-gpu",
};

/** The time of an item of the evidence: that of an iteration or a median gap is no sum. */
export function evidenceTime(item: EvidenceItem, scale: Scale): string {
  if (item.timeNs === null) return "";
  const isSum = item.kind !== "iteration" && item.kind !== "gap";
  return isSum ? sumText(item.timeNs, scaleOf(item, scale)) : durationText(item.timeNs);
}

/** How often an item of the evidence occurred. */
export function evidenceCount(item: EvidenceItem, scale: Scale): string {
  return item.count === null ? "" : sumCount(item.count, scaleOf(item, scale));
}

/** The aggregation may hold more steps than those that the item was summed over. */
function scaleOf(item: EvidenceItem, scale: Scale): Scale {
  return scale.isPerStep && item.steps !== null ? { ...scale, steps: item.steps } : scale;
}

interface FindingPictureProps {
  readonly items: readonly EvidenceItem[];
  readonly scale: Scale;
  /** Share of a step that could be saved, where nothing else can be drawn. */
  readonly gainPct: number | null;
}

export function FindingPicture({ items, scale, gainPct }: FindingPictureProps) {
  // Those of one kind: times of others mean something else.
  const [first] = items.filter((item) => (item.timeNs ?? 0) > 0);
  const timed = items
    .filter((item) => (item.timeNs ?? 0) > 0 && item.kind === first?.kind)
    .slice(0, MOST);
  const marked = timed.filter((item) => item.kind === "iteration").map((item) => Number(item.name));
  if (marked.length > 0) return <Spark width={120} height={32} marked={marked} />;
  if (timed.length === 0) return gainPct === null ? null : <Share pct={gainPct} />;
  const largest = Math.max(...timed.map((item) => item.timeNs ?? 0));
  const words = timed.map((item) => `${nameFor(item)}: ${evidenceTime(item, scale)}`);
  return (
    <span class="finding-picture" role="img" aria-label={words.join("; ")} title={words.join("\n")}>
      {timed.map((item, place) => (
        <span
          key={place}
          class={TONES[item.kind] ?? "part-gpu"}
          style={{ width: `${Math.max(2, (100 * (item.timeNs ?? 0)) / largest)}%` }}
        />
      ))}
    </span>
  );
}

function nameFor(item: EvidenceItem): string {
  return item.kind === "rank" ? t("Rank {rank}", { rank: item.name }) : item.name;
}

/** The part of a step that would go. */
function Share({ pct }: { pct: number }) {
  const text = t("{pct} % of the step", { pct: formatPct(pct) });
  return (
    <span class="finding-picture finding-share" role="img" aria-label={text} title={text}>
      <span class="part-gpu" style={{ width: `${100 - pct}%` }} />
    </span>
  );
}
