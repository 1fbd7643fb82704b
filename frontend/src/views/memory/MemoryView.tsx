/** What fills the memory of a GPU over time, and what lives at one moment. */

import type { Memory, MemoryRecording } from "../../api/types";
import { EXPLANATIONS } from "../../content/explanations";
import { t } from "../../i18n";
import { readSpan, type Span, spanText } from "../../lib/timeline";
import { bytesText, formatInt, formatPct } from "../../lib/units";
import { navigate, useQuery } from "../../state/location";
import { useScoped } from "../../state/scope";
import { Button } from "../../ui/Button";
import { Panel } from "../../ui/Panel";
import { Empty, Loaded, Skeleton } from "../../ui/states";
import { Answers } from "./Answers";
import { Curve } from "./Curve";
import { kindName } from "./kinds";
import { LiveAllocations } from "./LiveAllocations";

const SPAN = "span";
const CURSOR = "event";

export default function MemoryView() {
  const memory = useScoped<Memory>("memory/");
  return (
    <div class="view view-memory">
      <h1 class="visually-hidden">{t("Memory")}</h1>
      <Loaded resource={memory} skeleton={<Skeleton lines={8} height={30} />}>
        {({ recordings, unknown }) => <Recordings recordings={recordings} unknown={unknown} />}
      </Loaded>
    </div>
  );
}

function Recordings({ recordings, unknown }: Pick<Memory, "recordings" | "unknown">) {
  const query = useQuery();
  const wanted = Number(query.get("recording") ?? 1);
  const shown = recordings.find((one) => one.recording === wanted) ?? recordings[0];
  if (shown === undefined) {
    return <Empty title={t("Not known")}>{unknown.recordings}</Empty>;
  }
  return (
    <>
      <Headline shown={shown} />
      {recordings.length > 1 && <Choice recordings={recordings} shown={shown.recording} />}
      <Recorded key={shown.recording} shown={shown} />
    </>
  );
}

/** The peak, and what most of it is. */
function Headline({ shown }: { shown: MemoryRecording }) {
  const peak = Math.max(shown.peak_allocated_bytes, 1);
  const parts = shown.kinds
    .slice(0, 3)
    .map((one) => `${kindName(one.kind)} ${formatPct((100 * one.bytes) / peak)} %`);
  return (
    <div class="memory-head">
      <p class="rank-verdict">
        {t("Peak memory {allocated} ({reserved} reserved): {parts}.", {
          allocated: bytesText(shown.peak_allocated_bytes),
          reserved: bytesText(shown.peak_reserved_bytes),
          parts: parts.join(", "),
        })}
      </p>
      <p class="muted">
        {t("GPU {device}, {events} events of {file}.", {
          device: shown.device,
          events: formatInt(shown.num_events),
          file: shown.source_file,
        })}
      </p>
      {shown.recorded_by === "nsys" && (
        <p class="muted">
          {t("The CUDA driver knows no tensors, only what PyTorch takes for its cache.")}
        </p>
      )}
    </div>
  );
}

function Choice(props: { recordings: readonly MemoryRecording[]; shown: number }) {
  return (
    <label class="memory-choice">
      {t("Recording")}{" "}
      <select
        class="select"
        value={props.shown}
        onChange={(event) =>
          navigate({ recording: event.currentTarget.value, [SPAN]: null, [CURSOR]: null })
        }
      >
        {props.recordings.map((one) => (
          <option key={one.recording} value={one.recording}>
            {`GPU ${one.device}: ${one.source_file}`}
          </option>
        ))}
      </select>
    </label>
  );
}

function Recorded({ shown }: { shown: MemoryRecording }) {
  const query = useQuery();
  const all: Span = { low: 0, high: Math.max(shown.stop, 1) };
  const span = readSpan(query.get(SPAN), all) ?? all;
  const asked = Number(query.get(CURSOR) ?? shown.peak_event);
  const event = Number.isInteger(asked) && asked < shown.num_events ? asked : shown.peak_event;
  const choose = (next: number, part?: Span | null) =>
    navigate(
      {
        [CURSOR]: next === shown.peak_event ? null : String(next),
        ...(part === undefined ? {} : { [SPAN]: part === null ? null : spanText(part) }),
      },
      { replace: true },
    );
  return (
    <div class="grid view-one">
      <Panel
        title={t("Memory over time")}
        info={EXPLANATIONS.memory}
        span={12}
        actions={
          <>
            <Button onClick={() => choose(shown.peak_event)}>{t("Go to the peak")}</Button>
            {query.get(SPAN) !== undefined && (
              <Button onClick={() => choose(event, null)}>{t("Show all")}</Button>
            )}
          </>
        }
      >
        <Curve shown={shown} span={span} event={event} onChoose={choose} />
      </Panel>
      <LiveAllocations shown={shown} event={event} />
      <Answers shown={shown} onChoose={choose} />
    </div>
  );
}
