/** What lives at one moment: by kind, and by module and op with a call stack. */

import type { ComponentChildren } from "preact";
import type { MemoryAlive, MemoryOwner, MemoryRecording } from "../../api/types";
import { t } from "../../i18n";
import { bytesText, formatInt, formatPct } from "../../lib/units";
import { currentQuery } from "../../state/location";
import { patchForView } from "../../state/query";
import { useScoped } from "../../state/scope";
import { RIGHT, SmallTable } from "../../ui/ColumnsTable";
import { PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Loaded, Skeleton } from "../../ui/states";
import { placeText } from "./Curve";
import { evidenceText, kindColor, kindName } from "./kinds";

export function LiveAllocations(props: { shown: MemoryRecording; event: number }) {
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

function Kinds(props: { shown: MemoryRecording; alive: MemoryAlive; isPeak: boolean }) {
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
        rows={alive.kinds}
        rowKey={(row) => row.kind}
        columns={[
          [
            t("Kind"),
            ({ kind }) => (
              <>
                <Kind kind={kind} />
                {isPeak && (evidence.get(kind) ?? "") !== "" && (
                  <span class="memory-why">{evidenceText(evidence.get(kind) ?? "")}</span>
                )}
              </>
            ),
          ],
          [t("Size"), (row) => size(row.bytes), RIGHT],
          [t("Share"), (row) => `${formatPct((100 * row.bytes) / whole)} %`, RIGHT],
        ]}
      />
    </>
  );
}

function size(bytes: number) {
  return <span title={`${formatInt(bytes)} B`}>{bytesText(bytes)}</span>;
}

function Kind({ kind, title }: { kind: string; title?: string }) {
  return (
    <>
      <span class="swatch" style={{ background: kindColor(kind) }} />
      <span title={title}>{kindName(kind)}</span>
    </>
  );
}

function Owners({ alive }: { alive: MemoryAlive }) {
  const { owners, num_owners } = alive;
  const counts = { shown: formatInt(owners.length), count: formatInt(num_owners) };
  return (
    <SmallTable
      label={t("Who holds it")}
      rows={owners}
      rowKey={(row) => `${row.module} ${row.op} ${row.kind}`}
      columns={[
        [t("Module"), moduleOf, { class: "memory-name" }],
        [t("Op or line"), opOrLine, { class: "memory-name" }],
        [t("Kind"), (row) => <Kind kind={row.kind} title={evidenceText(row.evidence)} />],
        [t("Size"), (row) => size(row.bytes), RIGHT],
        [t("Allocations"), (row) => formatInt(row.allocations), RIGHT],
      ]}
      more={num_owners > owners.length ? t("The {shown} largest of {count}.", counts) : null}
    />
  );
}

function moduleOf({ op_path, module }: MemoryOwner): ComponentChildren {
  if (op_path === null) return module || "–";
  const ops = { ...patchForView(currentQuery(), "ops"), "ops.f.op_name__icontains": op_path };
  return (
    <PageAnchor class="link" to={ops}>
      {module}
    </PageAnchor>
  );
}

function opOrLine({ op, stack }: MemoryOwner): ComponentChildren {
  if (stack.length === 0) return op || "–";
  return (
    <details>
      <summary>{op || "–"}</summary>
      <ol class="memory-stack">
        {stack.map((frame, index) => (
          <li key={`${index} ${frame}`}>{frame}</li>
        ))}
      </ol>
    </details>
  );
}
