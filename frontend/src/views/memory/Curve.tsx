/** Allocated memory by kind as stacked areas, with what is reserved and active as lines. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { MemoryCurve, MemoryRecording } from "../../api/types";
import { useWidth } from "../../charts/useWidth";
import { t } from "../../i18n";
import { areas, type Frame, linePath, peakWithin, pointAt } from "../../lib/memory";
import { lengthOf, type Span, ticks } from "../../lib/timeline";
import { bytesText, durationText, formatInt } from "../../lib/units";
import { useScoped } from "../../state/scope";
import { ErrorNote, Skeleton } from "../../ui/states";
import { kindColor, kindName } from "./kinds";

const HEIGHT = 260;
const AXIS = 22;
/** Room for the bytes, which are written above their lines. */
const HEADROOM = 1.08;
const FEWEST_PX = 5;
/** Few, so that a change of the width by some pixels asks nothing anew; of these the server has stored the whole curve. */
const WIDTHS = [250, 500, 1_000] as const;
const MOST_PIXELS = 2_000;

interface CurveProps {
  readonly shown: MemoryRecording;
  readonly span: Span;
  readonly event: number;
  readonly onChoose: (event: number, span?: Span) => void;
}

export function Curve(props: CurveProps) {
  const { shown, span } = props;
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const pixels = WIDTHS.find((one) => one >= width) ?? MOST_PIXELS;
  const curve = useScoped<MemoryCurve>("memory/curve/", {
    recording: shown.recording,
    low: Math.floor(span.low),
    high: Math.ceil(span.high),
    pixels,
  });
  return (
    <div ref={holder} class="memory-curve" aria-busy={curve.data === null}>
      {curve.error !== null && <ErrorNote error={curve.error} onRetry={curve.reload} />}
      {curve.data === null && curve.error === null && <Skeleton lines={6} height={36} />}
      {curve.data !== null && width > 0 && <Picture {...props} curve={curve.data} width={width} />}
    </div>
  );
}

type PictureProps = CurveProps & { readonly curve: MemoryCurve; readonly width: number };

export function placeText(shown: MemoryRecording, at: number): string {
  return shown.axis === "time_ns"
    ? durationText(at)
    : t("event {number}", { number: formatInt(at) });
}

function Picture({ shown, curve, width, event, onChoose }: PictureProps) {
  const { low, high } = curve;
  const most = HEADROOM * Math.max(...curve.reserved_bytes, ...curve.allocated_bytes, 1);
  const frame: Frame = useMemo(
    () => ({ low, high, width, height: HEIGHT, most }),
    [low, high, width, most],
  );
  const drawn = useMemo(
    () => <Drawing shown={shown} curve={curve} frame={frame} />,
    [curve, frame, shown],
  );
  const index = pointAt(curve.event, event);
  const at = curve.at[index] ?? low;
  const step = (next: number) => {
    const chosen = curve.event[Math.min(Math.max(next, 0), curve.event.length - 1)];
    if (chosen !== undefined) onChoose(chosen);
  };
  const onKey = (key: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowLeft: index - 1,
      ArrowRight: index + 1,
      PageUp: index - 20,
      PageDown: index + 20,
      Home: 0,
      End: curve.event.length - 1,
    };
    const next = moves[key.key];
    if (next === undefined) return;
    key.preventDefault();
    step(next);
  };
  return (
    <>
      <div
        class="memory-plot"
        role="slider"
        tabIndex={0}
        aria-label={t("Moment of the recording; the tables below show what lives then")}
        aria-valuemin={low}
        aria-valuemax={high}
        aria-valuenow={at}
        aria-valuetext={`${placeText(shown, at)}, ${bytesText(curve.allocated_bytes[index] ?? 0)}`}
        onKeyDown={onKey}
      >
        {drawn}
        <Brush curve={curve} frame={frame} at={at} onChoose={onChoose} />
      </div>
      <Legend curve={curve} />
    </>
  );
}

function Drawing(props: { shown: MemoryRecording; curve: MemoryCurve; frame: Frame }) {
  const { shown, curve, frame } = props;
  const span = { low: frame.low, high: frame.high };
  const perPixel = frame.width / Math.max(lengthOf(span), 1);
  // The last text needs room to its right.
  const places = ticks(span, Math.max(Math.floor(frame.width / 110), 2)).filter(
    (place) => (place - frame.low) * perPixel < frame.width - 30,
  );
  const scale = ticks({ low: 0, high: frame.most }, 5).slice(1);
  return (
    <svg class="memory-drawing" width={frame.width} height={HEIGHT + AXIS} aria-hidden="true">
      {areas(frame, curve).map(({ kind, path }) => (
        <path key={kind} d={path} fill={kindColor(kind)} />
      ))}
      <path class="memory-active" d={linePath(frame, curve.at, curve.active_bytes)} />
      <path class="memory-reserved" d={linePath(frame, curve.at, curve.reserved_bytes)} />
      {scale.map((bytes) => {
        const y = HEIGHT * (1 - bytes / frame.most);
        return (
          <g key={bytes}>
            <line class="memory-grid" x1={0} x2={frame.width} y1={y} y2={y} />
            <text x={4} y={y - 3}>
              {bytesText(bytes)}
            </text>
          </g>
        );
      })}
      {places.map((place) => (
        <text
          key={place}
          x={(place - frame.low) * perPixel}
          y={HEIGHT + 15}
          text-anchor={place === frame.low ? "start" : "middle"}
        >
          {placeText(shown, place)}
        </text>
      ))}
    </svg>
  );
}

/** The moment that is shown, and the part that the pointer marks; drawn apart from the curve. */
function Brush(props: {
  curve: MemoryCurve;
  frame: Frame;
  at: number;
  onChoose: (event: number, span?: Span) => void;
}) {
  const { curve, frame, at, onChoose } = props;
  const [marked, setMarked] = useState<readonly [number, number] | null>(null);
  const length = frame.high - frame.low;
  const placeOf = (px: number) => frame.low + (length * px) / frame.width;
  const pxOf = (event: PointerEvent & { currentTarget: Element }) =>
    Math.min(
      Math.max(event.clientX - event.currentTarget.getBoundingClientRect().left, 0),
      frame.width,
    );
  const finish = () => {
    if (marked === null) return;
    const [low, high] = [Math.min(...marked), Math.max(...marked)];
    setMarked(null);
    if (high - low < FEWEST_PX) {
      const event = curve.event[pointAt(curve.at, placeOf(high))];
      if (event !== undefined) onChoose(event);
      return;
    }
    const part = { low: Math.floor(placeOf(low)), high: Math.ceil(placeOf(high)) };
    const event = curve.event[peakWithin(curve, part.low, part.high)];
    if (event !== undefined) onChoose(event, part);
  };
  const x = length > 0 ? ((at - frame.low) / length) * frame.width : 0;
  return (
    <svg
      class="memory-brush"
      width={frame.width}
      height={HEIGHT}
      aria-hidden="true"
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setMarked([pxOf(event), pxOf(event)]);
      }}
      onPointerMove={(event) => {
        if (marked !== null) setMarked([marked[0], pxOf(event)]);
      }}
      onPointerUp={finish}
      onPointerCancel={() => setMarked(null)}
    >
      {at >= frame.low && at <= frame.high && (
        <line class="memory-cursor" x1={x} x2={x} y1={0} y2={HEIGHT} />
      )}
      {marked !== null && (
        <rect
          class="memory-marked"
          x={Math.min(...marked)}
          width={Math.abs(marked[1] - marked[0])}
          y={0}
          height={HEIGHT}
        />
      )}
    </svg>
  );
}

function Legend({ curve }: { curve: MemoryCurve }) {
  return (
    <ul class="chain-legend">
      {curve.kinds.map(({ kind }) => (
        <li key={kind}>
          <span class="swatch" style={{ background: kindColor(kind) }} />
          {kindName(kind)}
        </li>
      ))}
      <li>
        <span class="memory-line is-active" />
        {t("Active: also what a stream still uses")}
      </li>
      <li>
        <span class="memory-line is-reserved" />
        {t("Reserved: taken from the driver")}
      </li>
    </ul>
  );
}
