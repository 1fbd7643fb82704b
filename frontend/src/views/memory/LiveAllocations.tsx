/** What lives at one moment: by kind, and by module and op with a call stack. */

import type { JSX } from "preact";
import type { MemoryAlive, MemoryOwner, MemoryRecording } from "../../api/types";
import { t } from "../../i18n";
import { bytesText } from "../../lib/bytes";
import { formatInt, formatPct } from "../../lib/units";
import { currentQuery } from "../../state/location";
import { patchForView } from "../../state/query";
import { useScoped } from "../../state/scope";
import { PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Loaded, Skeleton } from "../../ui/states";
import { SmallTable } from "../details/parts";
import { placeText } from "./Curve";
import { evidenceText, kindColor, kindName } from "./kinds";

export function LiveAllocations(props: { shown: MemoryRecording; event: number }): JSX.Element {
  const { shown, event } = props;
  const alive = useScoped<MemoryAlive>("memory/alive/", { recording: shown.recording, event });
  const isPeak = event === shown.peak_event;
  return (
    <>
      <Panel title={isPeak ? t("At the peak") : t("At this moment")} span={5}>
        <Loaded resource={alive} skeleton={<Skeleton lines={6} />}>
          {(data) => <Kinds shown={shown} alive={data} isPeak={isPeak} />}
        </Loaded>
      </Panel>
      <Panel title={t("Who holds it")} span={7}>
        <Loaded resource={alive} skeleton={<Skeleton lines={8} />}>
          {(data) => <Owners alive={data} />}
        </Loaded>
      </Panel>
    </>
  );
}

function Kinds(props: {
  shown: MemoryRecording;
  alive: MemoryAlive;
  isPeak: boolean;
}): JSX.Element {
  const { shown, alive, isPeak } = props;
  const whole = Math.max(alive.allocated_bytes, 1);
  const evidence = new Map(shown.kinds.map((one) => [one.kind, one.evidence]));
  return (
    <>
      <p class="memory-moment">
        <strong>{bytesText(alive.allocated_bytes)}</strong>{" "}
        {t("allocated of {reserved} reserved", { reserved: bytesText(alive.reserved_bytes) })}
        {alive.at !== null && `, ${placeText(shown, alive.at)}`}
        {alive.iteration_index !== null && (
          <>
            {", "}
            <PageAnchor
              class="link"
              to={{
                ...patchForView(currentQuery(), "kernels-by-iteration"),
                iteration: String(alive.iteration_index),
              }}
            >
              {t("iteration {number}", { number: formatInt(alive.iteration_index) })}
            </PageAnchor>
          </>
        )}
      </p>
      <SmallTable
        label={t("Memory by kind")}
        head={[[t("Kind")], [t("Size"), "align-right"], [t("Share"), "align-right"]]}
      >
        {alive.kinds.map((row) => (
          <tr key={row.kind}>
            <td>
              <i class="timeline-swatch" style={{ background: kindColor(row.kind) }} />
              {kindName(row.kind)}
              {isPeak && (evidence.get(row.kind) ?? "") !== "" && (
                <span class="memory-why">{evidenceText(evidence.get(row.kind) ?? "")}</span>
              )}
            </td>
            <td class="align-right">{size(row.bytes)}</td>
            <td class="align-right">{formatPct((100 * row.bytes) / whole)} %</td>
          </tr>
        ))}
      </SmallTable>
    </>
  );
}

function size(bytes: number): JSX.Element {
  return <span title={`${formatInt(bytes)} B`}>{bytesText(bytes)}</span>;
}

function Owners({ alive }: { alive: MemoryAlive }): JSX.Element {
  const { owners, num_owners } = alive;
  return (
    <SmallTable
      label={t("Who holds it")}
      head={[
        [t("Module")],
        [t("Op or line")],
        [t("Kind")],
        [t("Size"), "align-right"],
        [t("Allocations"), "align-right"],
      ]}
      more={
        num_owners > owners.length
          ? t("The {shown} largest of {count}.", {
              shown: formatInt(owners.length),
              count: formatInt(num_owners),
            })
          : null
      }
    >
      {owners.map((row) => (
        <OwnerRow key={`${row.module} ${row.op} ${row.kind}`} row={row} />
      ))}
    </SmallTable>
  );
}

function OwnerRow({ row }: { row: MemoryOwner }): JSX.Element {
  return (
    <tr>
      <td class="memory-name">
        {row.op_path === null ? (
          row.module || "–"
        ) : (
          <PageAnchor
            class="link"
            to={{
              ...patchForView(currentQuery(), "ops"),
              "ops.f.op_name__icontains": row.op_path,
            }}
          >
            {row.module}
          </PageAnchor>
        )}
      </td>
      <td class="memory-name">
        {row.stack.length === 0 ? (
          row.op || "–"
        ) : (
          <details>
            <summary>{row.op || "–"}</summary>
            <ol class="memory-stack">
              {row.stack.map((frame, index) => (
                <li key={`${index} ${frame}`}>{frame}</li>
              ))}
            </ol>
          </details>
        )}
      </td>
      <td>
        <i class="timeline-swatch" style={{ background: kindColor(row.kind) }} />
        <span title={evidenceText(row.evidence)}>{kindName(row.kind)}</span>
      </td>
      <td class="align-right">{size(row.bytes)}</td>
      <td class="align-right">{formatInt(row.allocations)}</td>
    </tr>
  );
}
