/** Bars by category, one below the other with their values: however many there are, all are read. */

import { durationText, UNKNOWN } from "../lib/units";

interface BarTrace {
  readonly name: string;
  readonly x: readonly (string | number)[];
  readonly y: readonly (number | null)[];
  /** The values in words; without them `customdata` has times. Unit of those: ns. */
  readonly text?: readonly string[];
  readonly customdata?: readonly (number | string | null)[];
  readonly marker: { readonly color: string; readonly pattern?: { readonly shape: string } };
}

export interface BarFigure {
  readonly data: readonly BarTrace[];
  readonly layout: {
    readonly xaxis: { readonly title: { readonly text: string } };
    readonly yaxis: { readonly range?: readonly [number, number] };
  };
}

function valueText(trace: BarTrace, place: number): string {
  const ns = trace.customdata?.[place];
  const text = trace.text?.[place] ?? (typeof ns === "number" ? durationText(ns) : "");
  return text === "" ? UNKNOWN : text;
}

export function Bars({ figure, label }: { figure: BarFigure; label: string }) {
  const { data, layout } = figure;
  const values = data.flatMap((trace) => trace.y.map((value) => value ?? 0));
  const most = layout.yaxis.range?.[1] ?? Math.max(...values, 0);
  const noun = layout.xaxis.title.text;
  const categories = data[0]?.x ?? [];
  return (
    <div class="bars">
      {data.length > 1 && <Legend entries={data.map(legendEntry)} />}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset draws a frame of its own */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must have the focus to be scrolled by key */}
      <div class="bars-rows" role="group" aria-label={label} tabIndex={0}>
        {categories.map((category, place) => (
          <div key={category} class="bars-row">
            <span class="bars-name">{`${noun} ${category}`.trim()}</span>
            <ul class="bars-of-one">
              {data.map((trace) => (
                <li key={trace.name}>
                  <span class="visually-hidden">{trace.name}: </span>
                  <span class="bars-track" aria-hidden="true">
                    <span
                      class={`bars-fill ${trace.marker.pattern === undefined ? "" : "is-hatched"}`}
                      style={{
                        width: `${most > 0 ? (100 * (trace.y[place] ?? 0)) / most : 0}%`,
                        backgroundColor: trace.marker.color,
                      }}
                    />
                  </span>
                  <span class="bars-value">{valueText(trace, place)}</span>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </div>
    </div>
  );
}

function legendEntry({ name, marker }: BarTrace) {
  return { name, color: marker.color, isHatched: marker.pattern !== undefined };
}

export interface LegendEntry {
  readonly name: string;
  readonly color: string;
  readonly isHatched?: boolean;
}

export function Legend({ entries }: { entries: readonly LegendEntry[] }) {
  return (
    <ul class="chart-legend">
      {entries.map(({ name, color, isHatched }) => (
        <li key={name} class="chart-legend-note">
          <span
            class={`swatch ${isHatched === true ? "is-hatched" : ""}`}
            style={{ backgroundColor: color }}
          />
          {name}
        </li>
      ))}
    </ul>
  );
}
