/** Plotly, loaded when the first chart is seen. It is most of the page's weight. */

import type { PlotlyModule } from "plotly.js-basic-dist-min";

let loading: Promise<PlotlyModule> | null = null;

export function loadPlotly(): Promise<PlotlyModule> {
  loading ??= import("plotly.js-basic-dist-min").then((module) => module.default);
  return loading;
}
