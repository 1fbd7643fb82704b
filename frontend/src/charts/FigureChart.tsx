/** A figure of the server drawn as it is: in the colors of the theme, as wide as its place. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useScoped } from "../state/scope";
import { useTheme } from "../state/theme";
import { ErrorNote, Skeleton } from "../ui/states";
import { loadPlotly } from "./plotly";

export interface Figure {
  readonly data: readonly Readonly<Record<string, unknown>>[];
  readonly layout: Readonly<Record<string, unknown>>;
}

const CONFIG = { displayModeBar: false, responsive: false } as const;

export function FigureChart(props: { name: string; label: string; height: number }): JSX.Element {
  const { name, label, height } = props;
  const theme = useTheme();
  const figure = useScoped<Figure>(`figures/${name}/`, { theme });
  const holder = useRef<HTMLDivElement>(null);
  const { data } = figure;
  useEffect(() => {
    const element = holder.current;
    if (element === null || data === null) return;
    let isGone = false;
    const draw = () =>
      void loadPlotly().then((plotly) => {
        if (isGone) return;
        const layout = { ...data.layout, height, width: element.clientWidth };
        void plotly.react(element, data.data, layout, CONFIG);
      });
    // Also called once at the start, with the first width.
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    return () => {
      isGone = true;
      observer.disconnect();
      void loadPlotly().then((plotly) => plotly.purge(element));
    };
  }, [data, height]);
  if (figure.error !== null) return <ErrorNote error={figure.error} onRetry={figure.reload} />;
  return (
    <div class="figure-frame" role="img" aria-label={label}>
      {data === null && <Skeleton lines={6} height={20} />}
      <div ref={holder} style={{ height: data === null ? "0" : `${height}px` }} />
    </div>
  );
}
