/** The peak of each step, what grows with each step, and what the allocator keeps. */

import type { MemoryRecording } from "../../api/types";
import { t } from "../../i18n";
import { bytesText, formatInt } from "../../lib/units";
import { Button } from "../../ui/Button";
import { RIGHT, SmallTable } from "../../ui/ColumnsTable";
import { Panel } from "../../ui/Panel";
import { Empty, type Fact, Facts } from "../../ui/states";

const MOST_STEPS = 200;

export function Answers(props: { shown: MemoryRecording; onChoose: (event: number) => void }) {
  const { shown, onChoose } = props;
  return (
    <>
      <Panel title={t("Peak of each step")} span={4}>
        <Steps shown={shown} onChoose={onChoose} />
      </Panel>
      <Panel title={t("Grows with each step")} span={4}>
        <Leaks shown={shown} />
      </Panel>
      <Panel title={t("The allocator at the end")} span={4}>
        <Facts facts={facts(shown)} />
      </Panel>
    </>
  );
}

function Steps(props: { shown: MemoryRecording; onChoose: (event: number) => void }) {
  const { shown, onChoose } = props;
  if (shown.num_steps < 2) {
    return (
      <Empty title={t("Not known")}>
        {t("The recording has no optimizer that would end a step.")}
      </Empty>
    );
  }
  const rows = shown.steps.slice(0, MOST_STEPS);
  const stepButton = (row: MemoryRecording["steps"][number]) => (
    <Button class="link-button" onClick={() => onChoose(row.event)}>
      {t("Step {number}", { number: row.step })}
    </Button>
  );
  return (
    <SmallTable
      label={t("Peak of each step")}
      rows={rows}
      rowKey={(row) => row.step}
      columns={[
        [t("Step"), stepButton],
        [t("Iteration"), ({ iteration_index: index }) => (index === null ? "–" : formatInt(index))],
        [t("Size"), (row) => bytesText(row.allocated_bytes), RIGHT],
      ]}
      more={
        shown.num_steps > rows.length
          ? t("The first {shown} of {count}.", {
              shown: formatInt(rows.length),
              count: formatInt(shown.num_steps),
            })
          : null
      }
    />
  );
}

function Leaks({ shown }: { shown: MemoryRecording }) {
  if (shown.num_steps < 4) {
    return <Empty title={t("Not known")}>{t("Fewer than four steps were recorded.")}</Empty>;
  }
  if (shown.leaks.length === 0) return <Empty title={t("Nothing grows with each step")} />;
  return (
    <SmallTable
      label={t("Grows with each step")}
      rows={shown.leaks}
      rowKey={(row) => row.name}
      columns={[
        [t("Module and op"), (row) => row.name, { class: "memory-name" }],
        [t("Steps"), (row) => formatInt(row.steps), RIGHT],
        [t("Size"), (row) => bytesText(row.bytes), RIGHT],
      ]}
    />
  );
}

function facts(shown: MemoryRecording): Fact[] {
  const why = t("Only snapshots of PyTorch hold the blocks of the allocator.");
  const { free_bytes, largest_free_bytes } = shown;
  return [
    [t("Allocated"), bytesText(shown.end_allocated_bytes)],
    [t("Active"), bytesText(shown.end_active_bytes)],
    [t("Reserved"), bytesText(shown.end_reserved_bytes)],
    [t("Free in its cache"), free_bytes === null ? null : bytesText(free_bytes), why],
    [
      t("Largest free block"),
      largest_free_bytes === null ? null : bytesText(largest_free_bytes),
      why,
    ],
    [t("Unnamed at the peak"), bytesText(shown.unnamed_bytes_at_peak)],
  ];
}
