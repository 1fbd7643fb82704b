/** The little of Plotly that is used here. */
declare module "plotly.js-basic-dist-min" {
  export type PlotlyData = Readonly<Record<string, unknown>>;
  export type PlotlyLayout = Readonly<Record<string, unknown>>;

  export interface PlotlyModule {
    react(
      element: HTMLElement,
      data: readonly PlotlyData[],
      layout: PlotlyLayout,
      config?: Readonly<Record<string, unknown>>,
    ): Promise<HTMLElement>;
    purge(element: HTMLElement): void;
    downloadImage(
      figure: { readonly data: readonly PlotlyData[]; readonly layout: PlotlyLayout },
      options: Readonly<Record<string, unknown>>,
    ): Promise<string>;
  }

  const plotly: PlotlyModule;
  export default plotly;
}
