/** A part of the iteration figure: the report holds the whole one only. Pure functions only. */

import type { FigureTrace, IterationFigure } from "../charts/iterationFigure";

/** The bars that lie inside of the range; each stands for as many iterations as before. */
export function cutFigure(
  figure: IterationFigure,
  start: number | null,
  stop: number | null,
): IterationFigure {
  const { meta } = figure.layout;
  // Without it there is nothing to draw.
  if (meta?.bars === undefined || (start === null && stop === null)) return figure;
  const places = meta.bars.flatMap((bar, place) =>
    (start === null || bar.last >= start) && (stop === null || bar.first <= stop) ? [place] : [],
  );
  const bars = places.flatMap((place) => meta.bars[place] ?? []);
  const first = bars[0];
  const last = bars.at(-1);
  if (first === undefined || last === undefined) return { ...figure, data: [] };
  const cut = <Item>(items: readonly Item[]): Item[] =>
    places.flatMap((place) => (place < items.length ? [items[place] as Item] : []));
  const cutTrace = (trace: FigureTrace): FigureTrace => ({
    ...trace,
    x: cut(trace.x),
    y: cut(trace.y),
    ...(Array.isArray(trace.width) ? { width: cut(trace.width as readonly number[]) } : {}),
    ...(Array.isArray(trace.customdata) ? { customdata: cut(trace.customdata) } : {}),
  });
  return {
    data: figure.data.map(cutTrace),
    layout: { ...figure.layout, meta: { ...meta, bars, first: first.first, last: last.last } },
  };
}
