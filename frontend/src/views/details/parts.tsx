/** What the pages of one op and one kernel have in common. */

import type { ComponentChildren, ComponentType, JSX } from "preact";
import type { ListPage } from "../../api/lists";
import type { AdviceRow } from "../../api/types";
import { t } from "../../i18n";
import { type Scale, sumText } from "../../lib/perStep";
import { durationText, exactNs, formatTimeIn, pickTimeUnit, type TimeUnit } from "../../lib/units";
import { currentQuery, navigate, useQuery } from "../../state/location";
import { patchForView } from "../../state/query";
import { useScoped } from "../../state/scope";
import { Panel } from "../../ui/Panel";
import { CopyButton, Empty, ErrorNote, Loaded, Skeleton, Unknown } from "../../ui/states";
import { ADVICE_PARAMS, readDrillDown, readEvidence } from "../dashboard/advice";
import { Finding } from "../dashboard/Finding";

export interface OneProps<T> {
  /** As the address names it. */
  readonly name: string;
  readonly data: T;
}

/** The page of the one thing that the address names: an op, a kernel. */
export function OnePage<T>(props: {
  /** The parameter of the address with its name. */
  parameter: string;
  /** Where the API has it. */
  path: (name: string) => string;
  /** What stands here when the address names none. */
  none: JSX.Element;
  page: ComponentType<OneProps<T>>;
}) {
  const name = useQuery().get(props.parameter);
  if (name === undefined) return props.none;
  return <Asked key={name} name={name} path={props.path(name)} page={props.page} />;
}

function Asked<T>(props: { name: string; path: string; page: ComponentType<OneProps<T>> }) {
  const found = useScoped<T>(props.path);
  if (found.error !== null) {
    return (
      <PageGrid>
        <div class="span-12">
          <ErrorNote error={found.error} onRetry={found.reload} />
        </div>
      </PageGrid>
    );
  }
  if (found.data === null) return <Skeleton lines={8} height={20} />;
  const Page = props.page;
  return <Page name={props.name} data={found.data} />;
}

/** Opens the kernels of an iteration, those of one op if it is named. */
export function showIteration(iteration: number, op?: string): void {
  const at = { iteration: String(iteration), op: op ?? null };
  navigate({ ...patchForView(currentQuery(), "kernels-by-op"), ...at });
}

/** The panels, in as many columns as fit. */
export function PageGrid({ children }: { children: ComponentChildren }) {
  return (
    <div class="view with-details">
      <div class="grid-frame">
        <div class="grid view-one">{children}</div>
      </div>
    </div>
  );
}

/** The name in full, however long it is. */
export function PageHead(props: {
  kind: string;
  name: string;
  full: string;
  children?: ComponentChildren;
}) {
  const { kind, name, full, children } = props;
  return (
    <header class="page-head span-12">
      <h1>
        <span class="page-kind">{kind}</span> <span class="page-name">{name}</span>
      </h1>
      {full !== name && <p class="page-full">{full}</p>}
      <div class="page-tags">
        {children}
        <CopyButton label={t("Copy the name")} text={() => full} />
      </div>
    </header>
  );
}

/** A time with its exact value; null: unknown. */
export function time(ns: number | null | undefined) {
  if (ns === null || ns === undefined) return null;
  return <span title={exactNs(Math.round(ns))}>{durationText(ns)}</span>;
}

/** A sum over the aggregated iterations, with its exact total. */
export function sumTime(ns: number, scale: Scale) {
  return <span title={t("{time} total", { time: exactNs(ns) })}>{sumText(ns, scale)}</span>;
}

/** The unit for a column of times: that of the longest. */
export function unitOf(times: readonly (number | null)[]): TimeUnit {
  return pickTimeUnit(Math.max(0, ...times.map((ns) => ns ?? 0)));
}

/** A time in the unit of its column, which the header names. */
export function timeIn(ns: number | null, unit: TimeUnit) {
  if (ns === null) return <Unknown />;
  return <span title={exactNs(Math.round(ns))}>{formatTimeIn(ns, unit)}</span>;
}

/** In place of a chart or table: what is not known, and why. */
export function NotKnown({ reason }: { reason?: string | undefined }) {
  return <Empty title={t("Not known")}>{reason ?? t("The database does not contain it.")}</Empty>;
}

export interface Subject {
  readonly opId?: string;
  /** Short name: what advice names kernels by. */
  readonly kernelName?: string;
}

/** Whether a piece of advice names an op or kernel: in its evidence, or in the list it leads to. */
export function names(row: AdviceRow, { opId, kernelName }: Subject): boolean {
  if (kernelName !== undefined) {
    return readEvidence(row).some((item) => item.kind === "kernel" && item.name === kernelName);
  }
  const patch = readDrillDown(row)?.patch ?? {};
  if (patch.op === opId || patch["ops.f.op_id__in"]?.split(",").includes(opId ?? "")) return true;
  return readEvidence(row).some(
    (item) => ["op", "before"].includes(item.kind) && item.link?.patch.op === opId,
  );
}

export function AdviceAbout({ subject }: { subject: Subject }) {
  const advice = useScoped<ListPage<AdviceRow>>("advice/", ADVICE_PARAMS);
  return (
    <Panel title={t("Advice that names it")} span={4}>
      <Loaded resource={advice}>
        {(data) => {
          if (data.unknown?.problem !== undefined) {
            return <NotKnown reason={data.unknown.problem} />;
          }
          const found = data.results.filter((row) => row.status === "found" && names(row, subject));
          if (found.length === 0) return <Empty title={t("No advice names it")} />;
          return (
            <div class="advice-about">
              <ol class="findings">
                {found.map((row) => (
                  <Finding
                    key={row.place}
                    row={row}
                    hasTimes={data.unknown?.gain_ns === undefined}
                  />
                ))}
              </ol>
            </div>
          );
        }}
      </Loaded>
    </Panel>
  );
}
