/** The two axes of a chart: titles, ticks and the lines behind what is drawn. */

import type { Tick } from "./iterationFigure";

interface AxesProps {
  /** The room of what is drawn, within the picture. Unit: pixels, as all here. */
  readonly frame: Readonly<Record<"left" | "right" | "top" | "bottom", number>>;
  readonly height: number;
  readonly drawing: { readonly xTicks: readonly Tick[]; readonly yTicks: readonly Tick[] };
  readonly titles: readonly [horizontal: string, vertical: string];
  /** Draws lines in both directions. */
  readonly hasGrid?: boolean;
}

export function Axes({ frame, height, drawing, titles, hasGrid = false }: AxesProps) {
  const { left, right, top, bottom } = frame;
  return (
    <>
      {drawing.xTicks.map(({ at, text }) => (
        <g key={text}>
          {hasGrid && <line class="plot-grid" x1={at} x2={at} y1={top} y2={bottom} />}
          <text class="plot-tick" x={at} y={bottom + 15} text-anchor="middle">
            {text}
          </text>
        </g>
      ))}
      {drawing.yTicks.map(({ at, text }) => (
        <g key={text}>
          <line class="plot-grid" x1={left} x2={right} y1={at} y2={at} />
          <text class="plot-tick" x={left - 6} y={at + 4} text-anchor="end">
            {text}
          </text>
        </g>
      ))}
      <text class="plot-title" x={(left + right) / 2} y={height - 6} text-anchor="middle">
        {titles[0]}
      </text>
      <text
        class="plot-title"
        transform={`translate(12 ${(top + bottom) / 2}) rotate(-90)`}
        text-anchor="middle"
      >
        {titles[1]}
      </text>
    </>
  );
}
