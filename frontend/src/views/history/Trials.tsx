/** Changes that were tried with `dlprof trial`: what was predicted, and what was measured. */

import type { RememberedTrial, Trials } from "../../api/types";
import { t } from "../../i18n";
import { durationText, formatFixed } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { ColumnsTable, type TableColumn } from "../../ui/ColumnsTable";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded, Skeleton, Unknown } from "../../ui/states";

/** A change of time in words: -3.2 is 3.2 % faster. */
function percent(value: number): string {
  const share = formatFixed(Math.abs(value), 1);
  return value > 0 ? t("{share} % slower", { share }) : t("{share} % faster", { share });
}

function interval([low = 0, high = 0]: readonly number[]): string {
  const [least, most] = [percent(low), percent(high)];
  if (low * high <= 0) return t("{least} to {most}", { least, most });
  const share = (value: number) => formatFixed(Math.abs(value), 1);
  return low > 0
    ? t("{least} to {most}", { least: share(low), most })
    : t("{least} to {most}", { least: share(high), most: least });
}

function change(value: number | null) {
  return value === null ? <Unknown /> : percent(value);
}

const VERDICTS: Readonly<Record<string, string>> = {
  faster: t("faster"),
  slower: t("slower"),
  same: t("same"),
  "cannot tell": t("cannot tell"),
};

const LOSSES: Readonly<Record<string, string>> = {
  agree: t("agree"),
  differ: t("differ: the result is changed"),
  unknown: t("unknown"),
};

export function TrialsPanel() {
  const answer = useScoped<Trials>("trials/");
  return (
    <Panel title={t("Changes that were tried")} span={12}>
      <Loaded resource={answer} skeleton={<Skeleton lines={3} />}>
        {({ trials, unreadable }) => (
          <>
            {trials.length === 0 ? (
              <Empty title={t("No change was tried")}>
                {t(
                  "dlprof trial --database FILE measures a change beside its base; what it found is kept and shown here.",
                )}
              </Empty>
            ) : (
              <Table trials={trials} />
            )}
            {unreadable > 0 && (
              <p>
                {t("Lines of trials.jsonl that cannot be read: {count}", { count: unreadable })}
              </p>
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}

export const NUMBER = { class: "is-number" } as const;

const COLUMNS: readonly TableColumn<RememberedTrial>[] = [
  [
    t("Base and change"),
    ({ base, variant, at }) => (
      <>
        <span class="muted">{base} →</span> {variant} <span class="muted">{at.slice(0, 10)}</span>
      </>
    ),
    { isHead: true, tip: ({ at }) => at },
  ],
  [
    t("Predicted by"),
    ({ prediction }) => prediction !== null && `${prediction.name} (${prediction.certainty})`,
  ],
  [
    t("Predicted"),
    ({ prediction }) => prediction !== null && change(prediction.change_pct),
    NUMBER,
  ],
  [t("Measured"), ({ change_pct }) => change(change_pct), { ...NUMBER, tip: timesOf }],
  [
    t("95 % interval"),
    ({ interval_pct, reason }) =>
      interval_pct === null ? <Unknown reason={reason} /> : interval(interval_pct),
  ],
  [t("Runs"), ({ runs }) => runs.join(" + ")],
  [t("Verdict"), ({ verdict }) => VERDICTS[verdict] ?? verdict],
  [t("Losses"), ({ losses }) => LOSSES[losses] ?? losses],
];

function timesOf({ base_ns, new_ns }: RememberedTrial): string {
  if (base_ns === null || new_ns === null) return "";
  return `${durationText(base_ns)} → ${durationText(new_ns)}`;
}

function Table({ trials }: { trials: readonly RememberedTrial[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls by keyboard
    <section class="compare-rows" aria-label={t("Measured")} tabIndex={0}>
      <ColumnsTable
        rows={trials}
        rowKey={(trial) => `${trial.at} ${trials.indexOf(trial)}`}
        columns={COLUMNS}
      />
    </section>
  );
}
