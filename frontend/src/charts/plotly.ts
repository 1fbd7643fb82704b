/** Plotly, loaded when a chart is saved as a picture: the page draws its charts itself. */

import type { PlotlyModule } from "plotly.js-basic-dist-min";

let loading: Promise<PlotlyModule> | null = null;

export function loadPlotly(): Promise<PlotlyModule> {
  loading ??= import("plotly.js-basic-dist-min").then((module) => module.default);
  return loading;
}
