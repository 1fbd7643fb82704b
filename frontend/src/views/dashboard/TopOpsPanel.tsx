/** The ten ops that took most GPU time. A row opens the op with its kernels. */

import type { JSX } from "preact";
import type { ListPage, Op } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { exactNs, formatInt, formatTimeIn } from "../../lib/units";
import { currentQuery, hrefWith, isPlainClick, navigate } from "../../state/location";
import { patchForView } from "../../state/query";
import { useScope, useScoped } from "../../state/scope";
import { ShareBar } from "../../table/columns";
import { missedTensorCores, opTone } from "../../table/specs/ops";
import { Flag, Name } from "../../ui/Name";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded, Skeleton, Unknown } from "../../ui/states";

function opPatch(op: Op): Record<string, string | null> {
  return { ...patchForView(currentQuery(), "ops"), op: op.op_id };
}

export function TopOpsPanel(): JSX.Element {
  const ops = useScoped<ListPage<Op>>("top-ops/");
  const { profile } = useScope();
  return (
    <Panel
      title="Top 10 GPU ops"
      info={EXPLANATIONS.topOps}
      span={8}
      class="panel-flush"
      actions={<ViewLink view="ops" text="All ops" />}
    >
      <Loaded resource={ops} skeleton={<Skeleton lines={10} />}>
        {(data) =>
          data.results.length === 0 ? (
            <Empty title="No ops in this profile">
              {profile.info.no_ops_reason ?? "It has no ranges that name ops."}
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

function TopOpsTable({ ops }: { ops: readonly Op[] }): JSX.Element {
  const hasDirection = ops.some((op) => (op.direction ?? "") !== "");
  return (
    <div class="table-scroll">
      <table class="top-ops">
        <caption class="visually-hidden">Top 10 GPU ops</caption>
        <thead>
          <tr>
            <th scope="col">Op name</th>
            <th scope="col" class="align-right">
              GPU time <span class="th-unit">ms</span>
            </th>
            <th scope="col" class="align-right">
              Share <span class="th-unit">%</span>
            </th>
            {hasDirection && <th scope="col">Direction</th>}
            <th scope="col">Op type</th>
            <th scope="col" class="align-right">
              Calls
            </th>
            <th scope="col" class="align-center">
              TC eligible
            </th>
            <th scope="col" class="align-center">
              Using TC
            </th>
          </tr>
        </thead>
        <tbody>
          {ops.map((op) => (
            <TopOpRow key={op.op_id} op={op} hasDirection={hasDirection} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TopOpRow({ op, hasDirection }: { op: Op; hasDirection: boolean }): JSX.Element {
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(opPatch(op));
  };
  return (
    <tr>
      <td>
        <a class="row-link" href={hrefWith(opPatch(op))} onClick={open}>
          <Name name={op.op_name} />
        </a>
      </td>
      <td class="align-right" title={op.gpu_time_ns === null ? undefined : exactNs(op.gpu_time_ns)}>
        {op.gpu_time_ns === null ? <Unknown /> : formatTimeIn(op.gpu_time_ns, "ms")}
      </td>
      <td class="align-right">
        {op.share_pct === null ? <Unknown /> : <ShareBar pct={op.share_pct} tone={opTone(op)} />}
      </td>
      {hasDirection && <td>{op.direction}</td>}
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
