/** One finding: what it could save, what is wrong, its picture, where to look and how to fix it. */

import { useId, useState } from "preact/hooks";
import { isReport } from "../../api/source";
import type { AdviceRow, NcuCommands, PerformanceSummary } from "../../api/types";
import { useResource } from "../../api/useResource";
import { t } from "../../i18n";
import { timingCommand, withProgram } from "../../lib/commands";
import { useScale } from "../../lib/perStep";
import { formatInt } from "../../lib/units";
import { scopedUrl, useScope, useScoped } from "../../state/scope";
import { selectedInTimeline } from "../../table/timelineLink";
import { Button } from "../../ui/Button";
import { ColumnsTable, RIGHT } from "../../ui/ColumnsTable";
import { PageAnchor } from "../../ui/PageLink";
import { CopyButton, CopyCommand } from "../../ui/states";
import { findView } from "../registry";
import {
  type AdviceLink,
  type EvidenceItem,
  gainOf,
  marksOf,
  readDrillDown,
  readEvidence,
} from "./advice";
import { evidenceCount, evidenceTime, FindingPicture } from "./FindingPicture";
import { ViewLink } from "./ViewLink";

const SOURCES: Readonly<Record<string, string>> = {
  replay: t("replay"),
  corrected: t("replay without the costs of profiling"),
  estimate: t("estimate"),
};

const CERTAINTIES: Readonly<Record<string, string>> = {
  sure: t("sure"),
  likely: t("likely"),
  possible: t("possible"),
};

const KINDS: Readonly<Record<string, string>> = {
  op: t("Op"),
  before: t("Python code"),
  kernel: t("Kernel"),
  rank: t("Rank"),
  iteration: t("Iteration"),
  gpu: t("GPU"),
  gap: t("Gap"),
  setting: t("Setting"),
};

export interface FindingProps {
  readonly row: AdviceRow;
  /** Whether the database has the times that could be saved; those of earlier versions have none. */
  readonly hasTimes: boolean;
}

export function Finding({ row, hasTimes }: FindingProps) {
  const [isOpen, setOpen] = useState(false);
  const scale = useScale();
  const howId = useId();
  const gain = gainOf(row, hasTimes);
  const evidence = readEvidence(row);
  const link = readDrillDown(row) ?? evidence.find((item) => item.link !== null)?.link ?? null;
  const marks = marksOf(evidence);
  const kinds = [SOURCES[row.gain_source ?? ""], CERTAINTIES[row.certainty ?? ""]];
  const trust = kinds.filter(Boolean).join(" · ");
  return (
    <li class={`finding severity-${row.severity ?? "low"}`}>
      <span class="finding-gain" title={gain === null ? undefined : `${gain.text}, ${trust}`}>
        {gain?.short}
        {gain?.share != null && <small>{gain.share}</small>}
        {gain !== null && <span class="visually-hidden">{gain.text}</span>}
        {gain === null && row.status === "found" && (
          <span class="finding-unknown" title={row.reasoning ?? row.needs ?? undefined}>
            {t("unknown")}
          </span>
        )}
      </span>
      <p class="finding-problem">{row.problem}</p>
      <FindingPicture items={evidence} scale={scale} gainPct={row.gain_pct} />
      <span class="finding-actions">
        {link !== null && <Jump link={link} />}
        {marks !== null && !isReport() && (
          <PageAnchor to={selectedInTimeline(marks)} class="button">
            {t("Show on timeline")}
          </PageAnchor>
        )}
        <Button aria-expanded={isOpen} aria-controls={howId} onClick={() => setOpen(!isOpen)}>
          {t("How to fix")}
        </Button>
      </span>
      <div id={howId} class="finding-how" hidden={!isOpen}>
        {isOpen && <How row={row} evidence={evidence} trust={trust} />}
      </div>
    </li>
  );
}

/** Named by the view that it opens. */
function Jump({ link }: { link: AdviceLink }) {
  const shown = link.patch["ops.f.op_id__in"]?.split(",").length ?? 0;
  const text =
    link.total === undefined
      ? t("Ops")
      : t("{shown} of {total} ops", { shown: formatInt(shown), total: formatInt(link.total) });
  return (
    <ViewLink class="button" view={link.view} patch={link.patch}>
      {link.view === "ops" ? text : (findView(link.view)?.title ?? link.view)}
    </ViewLink>
  );
}

interface HowProps {
  readonly row: AdviceRow;
  readonly evidence: readonly EvidenceItem[];
  readonly trust: string;
}

function How({ row, evidence, trust }: HowProps) {
  return (
    <>
      <p class="finding-advice">{row.recommendation}</p>
      {row.reasoning !== null && (
        <p class="muted">
          {row.reasoning}
          {trust !== "" && ` (${trust})`}
        </p>
      )}
      {row.needs !== null && <p class="muted">{t("To confirm: {data}", { data: row.needs })}</p>}
      <Commands row={row} evidence={evidence} />
      {evidence.length > 0 && <EvidenceTable items={evidence} />}
      {row.proof_query !== null && (
        <CopyButton label={t("Copy SQL")} text={() => row.proof_query ?? ""} />
      )}
    </>
  );
}

/** What measures more: the step without the profiler, or the kernel with Nsight Compute. */
function Commands({ row, evidence }: Omit<HowProps, "trust">) {
  const scope = useScope();
  const summary = useScoped<PerformanceSummary>("performance-summary/").data;
  const command = scope.profile.system_config.original_command;
  const isUntimed = summary?.bare_step_ns == null && summary?.given_step_ns == null;
  const isUnproven = isUntimed && row.gain_ns === null && row.needs !== null;
  const kernel = evidence.find((item) => item.kind === "kernel");
  // A report in one file has no single launches.
  const path = kernel && !isReport() && `kernels/${encodeURIComponent(kernel.name)}/ncu/`;
  const ncu = useResource<NcuCommands>(path ? scopedUrl(scope, path) : null).data;
  const [launch] = ncu?.commands ?? [];
  if (!isUnproven && launch === undefined) return null;
  return (
    <dl class="commands">
      {isUnproven && (
        <div>
          <dt>{t("Time the step without the profiler")}</dt>
          <dd>
            <CopyCommand command={timingCommand(command)} />
          </dd>
        </div>
      )}
      {launch !== undefined && (
        <div>
          <dt>{t("Profile the kernel with Nsight Compute")}</dt>
          <dd>
            <CopyCommand command={withProgram(launch.command, command)} />
            <p class="panel-note">{ncu?.note}</p>
          </dd>
        </div>
      )}
    </dl>
  );
}

function EvidenceTable({ items }: { items: readonly EvidenceItem[] }) {
  const scale = useScale();
  return (
    <ColumnsTable
      class="facts-table evidence"
      rows={items}
      rowKey={(item) => items.indexOf(item)}
      columns={[
        [t("Evidence"), ({ kind }) => KINDS[kind] ?? kind],
        [
          t("Name"),
          ({ name, link }) =>
            link === null ? (
              name
            ) : (
              <ViewLink class="" view={link.view} patch={link.patch}>
                {name}
              </ViewLink>
            ),
          { class: "evidence-name", tip: ({ id }) => id },
        ],
        [t("Time"), (item) => evidenceTime(item, scale), RIGHT],
        [t("Count"), (item) => evidenceCount(item, scale), RIGHT],
      ]}
    />
  );
}
