/** The ten ops that took most GPU time. A row opens the op with its kernels. */

import type { JSX } from "preact";
import type { ListPage } from "../../api/lists";
import type { OpsRow } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { exactNs, formatInt, formatPct, formatTimeIn } from "../../lib/units";
import { currentQuery, hrefWith, isPlainClick, navigate } from "../../state/location";
import { patchForView } from "../../state/query";
import { useScope, useScoped } from "../../state/scope";
import { missedTensorCores, opTone } from "../../table/specs/ops";
import { Direction, Flag, Name } from "../../ui/Name";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded, Skeleton, Unknown } from "../../ui/states";

function opPatch(op: OpsRow): Record<string, string | null> {
  return { ...patchForView(currentQuery(), "ops"), op: op.op_id };
}

export function TopOpsPanel(): JSX.Element {
  const ops = useScoped<ListPage<OpsRow>>("top-ops/");
  const { profile } = useScope();
  return (
    <Panel
      title={t("Top 10 GPU ops")}
      info={EXPLANATIONS.topOps}
      span={8}
      class="panel-flush"
      actions={<ViewLink view="ops" text={t("All ops")} />}
    >
      <Loaded resource={ops} skeleton={<Skeleton lines={10} />}>
        {(data) =>
          data.results.length === 0 ? (
            <Empty title={t("No ops in this profile")}>
              {profile.info.no_ops_reason ?? t("It has no ranges that name ops.")}
            </Empty>
          ) : (
            <TopOpsTable ops={data.results} />
          )
        }
      </Loaded>
    </Panel>
  );
}

export function ViewLink({ view, text }: { view: string; text: string }): JSX.Element {
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(patchForView(currentQuery(), view));
  };
  return (
    <a class="panel-link" href={hrefWith(patchForView(currentQuery(), view))} onClick={open}>
      {text}
    </a>
  );
}

function TopOpsTable({ ops }: { ops: readonly OpsRow[] }): JSX.Element {
  const largest = ops[0]?.gpu_time_ns ?? 0;
  const hasDirection = ops.some((op) => (op.direction ?? "") !== "");
  return (
    <div class="table-scroll">
      <table class="top-ops">
        <caption class="visually-hidden">{t("Top 10 GPU ops")}</caption>
        <thead>
          <tr>
            <th scope="col" class="top-name">
              {t("Op name")}
            </th>
            <th scope="col" class="top-time align-right">
              {t("GPU time")} <span class="th-unit">ms</span>
            </th>
            {hasDirection && (
              <th scope="col" class="top-direction">
                {t("Direction")}
              </th>
            )}
            <th scope="col" class="top-type">
              {t("Op type")}
            </th>
            <th scope="col" class="top-calls align-right">
              {t("Calls")}
            </th>
            <th scope="col" class="top-flag align-center">
              {t("TC eligible")}
            </th>
            <th scope="col" class="top-flag align-center">
              {t("Using TC")}
            </th>
          </tr>
        </thead>
        <tbody>
          {ops.map((op) => (
            <TopOpRow key={op.op_id} op={op} hasDirection={hasDirection} largest={largest} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** GPU time behind a bar that is full for the first op. */
function TimeBar({ op, largest }: { op: OpsRow; largest: number }): JSX.Element {
  const ns = op.gpu_time_ns ?? 0;
  const share =
    op.share_pct === null ? "" : ` · ${t("{pct} % of all ops", { pct: formatPct(op.share_pct) })}`;
  return (
    <span class="share" title={`${exactNs(ns)}${share}`}>
      <span class="share-track" aria-hidden="true">
        <span
          class={`share-fill part-${opTone(op)}`}
          style={{ width: `${largest > 0 ? (100 * ns) / largest : 0}%` }}
        />
      </span>
      <span class="share-value">{formatTimeIn(ns, "ms")}</span>
    </span>
  );
}

interface TopOpRowProps {
  readonly op: OpsRow;
  readonly hasDirection: boolean;
  readonly largest: number;
}

function TopOpRow({ op, hasDirection, largest }: TopOpRowProps): JSX.Element {
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(opPatch(op));
  };
  return (
    <tr>
      <td>
        <a class="row-link" href={hrefWith(opPatch(op))} onClick={open}>
          <Name name={op.op_name ?? ""} />
        </a>
      </td>
      <td class="align-right">
        {op.gpu_time_ns === null ? <Unknown /> : <TimeBar op={op} largest={largest} />}
      </td>
      {hasDirection && (
        <td>
          <Direction value={op.direction ?? ""} />
        </td>
      )}
      <td title={op.op_type ?? undefined}>{op.op_type}</td>
      <td class="align-right">{op.num_calls === null ? <Unknown /> : formatInt(op.num_calls)}</td>
      <td class="align-center">
        {op.tc_eligible === null ? <Unknown /> : <Flag value={op.tc_eligible} />}
      </td>
      <td class="align-center">
        {op.using_tc === null ? (
          <Unknown />
        ) : (
          <Flag value={op.using_tc} warn={missedTensorCores(op)} />
        )}
      </td>
    </tr>
  );
}
