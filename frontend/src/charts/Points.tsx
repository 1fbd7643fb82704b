/** Ops as points below the roofs of the GPU. A click opens the page of an op. */

import { useId, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { durationText, formatPct } from "../lib/units";
import { navigate } from "../state/location";
import { opPage } from "../ui/PageLink";
import { Axes } from "./Axes";
import { Legend } from "./Bars";
import {
  drawPoints,
  POINT_MARGIN,
  type Point,
  type PointDrawing,
  type PointFigure,
  pointAt,
} from "./pointFigure";
import { useWidth } from "./useWidth";

const CARD_GAP = 12;
const CARD_WIDTH = 240;

export function Points(props: { figure: PointFigure; label: string; height: number }) {
  const { figure, label, height } = props;
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const [hovered, setHovered] = useState<Point | null>(null);
  const drawing = useMemo(
    () => drawPoints(figure, Math.max(width, 200), height),
    [figure, width, height],
  );
  const picture = useMemo(
    () => <Picture figure={figure} drawing={drawing} width={width} height={height} label={label} />,
    [figure, drawing, width, height, label],
  );
  const below = (event: PointerEvent | MouseEvent) => {
    const box = holder.current?.getBoundingClientRect();
    return pointAt(
      drawing.points,
      event.clientX - (box?.left ?? 0),
      event.clientY - (box?.top ?? 0),
    );
  };
  return (
    <div class="points">
      <Legend
        entries={figure.data.flatMap(({ name, marker }) =>
          marker === undefined ? [] : [{ name, color: marker.color }],
        )}
      />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a shortcut; the table has the ops and their values */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the table leads to the ops by key */}
      <div
        ref={holder}
        class={`points-plot ${hovered === null ? "" : "is-over"}`}
        style={{ height: `${height}px` }}
        onPointerMove={(event) => setHovered(below(event))}
        onPointerLeave={() => setHovered(null)}
        onClick={(event) => {
          const opId = opOf(below(event));
          if (opId !== null) navigate(opPage(opId));
        }}
      >
        {width > 0 && picture}
        {hovered !== null && <Card point={hovered} width={width} />}
      </div>
    </div>
  );
}

function opOf(point: Point | null): string | null {
  return point?.trace.customdata?.[point.place]?.[0] ?? null;
}

function Picture(props: {
  figure: PointFigure;
  drawing: PointDrawing;
  width: number;
  height: number;
  label: string;
}) {
  const { figure, drawing, width, height } = props;
  const clip = useId();
  const { left, right, top, bottom } = POINT_MARGIN;
  const [end, floor] = [width - right, height - bottom];
  return (
    <svg class="iterations-svg" width={width} height={height} role="img" aria-label={props.label}>
      <Axes
        frame={{ left, right: end, top, bottom: floor }}
        height={height}
        drawing={drawing}
        titles={[figure.layout.xaxis.title.text, figure.layout.yaxis.title.text]}
        hasGrid
      />
      <clipPath id={clip}>
        <rect x={left} y={top} width={Math.max(0, end - left)} height={floor - top} />
      </clipPath>
      <g clip-path={`url(#${clip})`}>
        {drawing.points.map((point) => (
          <circle
            key={`${point.trace.name} ${point.place}`}
            class="point"
            cx={point.x}
            cy={point.y}
            r={point.radius}
            fill={point.trace.marker?.color}
          />
        ))}
        {drawing.lines.map((points) => (
          <polyline key={points} class="plot-roof" points={points} />
        ))}
      </g>
      {drawing.labels.map((label) => (
        <text key={label.text} class="plot-cut" x={label.x} y={label.y} text-anchor={label.anchor}>
          {label.text}
        </text>
      ))}
    </svg>
  );
}

function Card({ point, width }: { point: Point; width: number }) {
  const { trace, place } = point;
  const found = trace.customdata?.[place];
  if (found === undefined) return null;
  const [opId, gpuNs, peakPct, leftNs] = found;
  const right = point.x + point.radius + CARD_GAP;
  const left = right + CARD_WIDTH <= width ? right : point.x - point.radius - CARD_GAP - CARD_WIDTH;
  const lines = [
    [figureText(trace.y[place]), t("TFLOP/s")],
    [figureText(trace.x[place]), t("operations per byte")],
    [durationText(gpuNs), t("GPU time")],
    [leftNs === null ? null : durationText(leftNs), t("Time lost vs. roofline")],
    [peakPct === null ? null : `${formatPct(peakPct)} %`, t("Share of peak (%)")],
  ] as const;
  return (
    <div
      class="chart-card"
      style={{
        left: `${Math.max(0, left)}px`,
        width: `${CARD_WIDTH}px`,
        top: `${Math.max(0, point.y - 60)}px`,
      }}
    >
      <p class="chart-card-title">
        <b>{opId}</b>
      </p>
      <table>
        <tbody>
          {lines.map(
            ([value, name]) =>
              value !== null && (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td>{value}</td>
                </tr>
              ),
          )}
        </tbody>
      </table>
    </div>
  );
}

function figureText(value: number | undefined): string | null {
  return value === undefined ? null : value.toPrecision(3);
}
