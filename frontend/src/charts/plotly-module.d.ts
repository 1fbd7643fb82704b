/** The little of Plotly that is used here. */
declare module "plotly.js-basic-dist-min" {
  export type PlotlyData = Readonly<Record<string, unknown>>;
  export type PlotlyLayout = Readonly<Record<string, unknown>>;

  export interface PlotlyPoint {
    readonly pointNumber: number;
    readonly x: number;
  }

  export interface PlotlyElement extends HTMLElement {
    on(event: "plotly_hover", listener: (event: { points: readonly PlotlyPoint[] }) => void): void;
    on(event: "plotly_unhover", listener: () => void): void;
    on(
      event: "plotly_relayout",
      listener: (change: Readonly<Record<string, unknown>>) => void,
    ): void;
    removeAllListeners(event: string): void;
  }

  export interface PlotlyModule {
    react(
      element: HTMLElement,
      data: readonly PlotlyData[],
      layout: PlotlyLayout,
      config?: Readonly<Record<string, unknown>>,
    ): Promise<PlotlyElement>;
    relayout(element: HTMLElement, change: PlotlyLayout): Promise<PlotlyElement>;
    purge(element: HTMLElement): void;
    downloadImage(
      figure: { readonly data: readonly PlotlyData[]; readonly layout: PlotlyLayout },
      options: Readonly<Record<string, unknown>>,
    ): Promise<string>;
  }

  const plotly: PlotlyModule;
  export default plotly;
}
