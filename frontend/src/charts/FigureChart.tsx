/** A figure of the server, drawn without a library: bars by category, or points below lines. */

import { useScoped } from "../state/scope";
import { useTheme } from "../state/theme";
import { Empty, ErrorNote, Skeleton } from "../ui/states";
import { type BarFigure, Bars } from "./Bars";
import { Points } from "./Points";
import type { PointFigure } from "./pointFigure";

export interface Figure {
  readonly data: readonly Readonly<Record<string, unknown>>[];
  readonly layout: Readonly<Record<string, unknown>>;
}

interface WithNotes {
  readonly annotations?: readonly { readonly text: string }[];
}

export function FigureChart(props: { name: string; label: string; height: number }) {
  const { name, label, height } = props;
  const theme = useTheme();
  const figure = useScoped<Figure>(`figures/${name}/`, { theme });
  const { data } = figure;
  if (figure.error !== null) return <ErrorNote error={figure.error} onRetry={figure.reload} />;
  if (data === null) {
    return (
      <div style={{ height: `${height}px` }}>
        <Skeleton lines={6} height={20} />
      </div>
    );
  }
  const kind = data.data[0]?.type;
  if (kind === undefined) {
    // The server's reason why there is nothing.
    return <Empty title={(data.layout as WithNotes).annotations?.[0]?.text ?? ""} />;
  }
  return kind === "bar" ? (
    <Bars figure={data as unknown as BarFigure} label={label} />
  ) : (
    <Points figure={data as unknown as PointFigure} label={label} height={height} />
  );
}
