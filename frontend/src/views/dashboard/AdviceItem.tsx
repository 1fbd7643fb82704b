/** One piece of advice: the time that it could save, what to do, and on request the proof. */

import type { JSX } from "preact";
import type { AdviceRow } from "../../api/types";
import { t } from "../../i18n";
import { formatDuration, formatInt } from "../../lib/units";
import { currentQuery, navigate } from "../../state/location";
import { patchForView } from "../../state/query";
import { Icon } from "../../ui/icons";
import { CopyButton } from "../../ui/states";
import {
  type AdviceLink,
  type EvidenceItem,
  gainText,
  readDrillDown,
  readEvidence,
} from "./advice";

const SEVERITIES: Readonly<Record<string, string>> = {
  high: t("High"),
  medium: t("Medium"),
  low: t("Low"),
};

const SOURCES: Readonly<Record<string, string>> = {
  replay: t("by replay"),
  corrected: t("by replay, corrected for profiling"),
  estimate: t("estimate"),
};

const CERTAINTIES: Readonly<Record<string, string>> = {
  sure: t("sure"),
  likely: t("likely"),
  possible: t("rule of thumb"),
};

export interface AdviceItemProps {
  readonly row: AdviceRow;
  /** Whether the database has the times that could be saved; those of earlier versions have none. */
  readonly hasTimes: boolean;
}

export function AdviceItem({ row, hasTimes }: AdviceItemProps): JSX.Element {
  const gain = gainText(row, hasTimes);
  const drill = readDrillDown(row);
  const evidence = readEvidence(row);
  const severity = row.severity ?? "low";
  return (
    <li>
      <p class="advice-head">
        <span class={`severity severity-${severity}`}>{SEVERITIES[severity]}</span>
        {gain !== null && <span class="advice-gain">{gain}</span>}
        {gain !== null && row.gain_source !== null && (
          <span class="advice-certainty">{SOURCES[row.gain_source]}</span>
        )}
        {row.certainty !== null && (
          <span class="advice-certainty">{CERTAINTIES[row.certainty]}</span>
        )}
      </p>
      <p class="advice-problem">{row.problem}</p>
      <p class="advice-text">{row.recommendation}</p>
      {drill !== null && <Jump link={drill} label={t("Show details")} />}
      <details class="advice-why">
        <summary>{t("Why")}</summary>
        {row.reasoning !== null && <p class="advice-text">{row.reasoning}</p>}
        {row.needs !== null && (
          <p class="advice-text">{t("To confirm: {data}", { data: row.needs })}</p>
        )}
        <ul class="evidence">
          {evidence.map((item) => (
            <Evidence key={`${item.kind} ${item.name}`} item={item} />
          ))}
        </ul>
        {row.proof_query !== null && (
          <CopyButton
            label={t("Copy the query that proves it")}
            text={() => row.proof_query ?? ""}
          />
        )}
      </details>
    </li>
  );
}

function Jump({ link, label }: { link: AdviceLink; label: string }): JSX.Element {
  return (
    <button
      type="button"
      class="link-button"
      onClick={() => navigate({ ...patchForView(currentQuery(), link.view), ...link.patch })}
    >
      <Icon name="doubleRight" size={14} /> {label}
    </button>
  );
}

function Evidence({ item }: { item: EvidenceItem }): JSX.Element {
  const time = item.timeNs === null ? null : formatDuration(item.timeNs);
  // Everything else is named by the profile itself.
  const name =
    item.kind === "gap"
      ? t("Median gap before a kernel")
      : item.kind === "before"
        ? t("Before {name}", { name: item.name })
        : item.name;
  return (
    <li>
      <span class="evidence-name" title={name}>
        {item.link === null ? name : <Jump link={item.link} label={name} />}
      </span>
      <span class="evidence-value">
        {time !== null && `${time.value} ${time.unit}`}
        {item.count !== null && ` × ${formatInt(item.count)}`}
      </span>
    </li>
  );
}
