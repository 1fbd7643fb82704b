/** Where an op stands under the roofline of its GPU: both axes are logarithmic. */

import type { OpEfficiencyRow, PeakRatesRow } from "../../api/types";
import { t } from "../../i18n";
import { type Scale, sumText, useScale } from "../../lib/perStep";
import { formatPct } from "../../lib/units";
import { boundText } from "../../table/specs/efficiency";

const WIDTH = 300;
const HEIGHT = 150;
/** Room beyond the point and the ridge. Unit: decades. */
const MARGIN = 0.7;

function number(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function sentence(row: OpEfficiencyRow, scale: Scale): string {
  const parts = [
    t("{share} % of what the GPU could do", { share: formatPct(row.peak_pct ?? 0) }),
    row.bound === null ? null : t("bound by {what}", { what: boundText(row.bound) ?? "" }),
    row.left_time_ns === null || row.left_time_ns < 0
      ? null
      : t("{time} lost vs. roofline", { time: sumText(row.left_time_ns, scale) }),
  ];
  return parts.filter((part) => part !== null).join(", ");
}

export function RooflinePoint(props: { row: OpEfficiencyRow; rates: readonly PeakRatesRow[] }) {
  const { row, rates } = props;
  const scale = useScale();
  const rateOf = (name: string | null) => rates.find((one) => one.rate_name === name)?.rate ?? null;
  const bandwidth = rateOf("bandwidth");
  const precision = row.precision ?? "float32";
  const peak = rateOf(precision);
  return (
    <>
      {row.peak_pct !== null && <p class="roofline-words">{sentence(row, scale)}</p>}
      {row.peak_reason !== null && row.peak_reason !== "" && <p>{row.peak_reason}</p>}
      {row.arithmetic_intensity !== null &&
        row.tflops_per_second !== null &&
        row.tflops_per_second > 0 &&
        bandwidth !== null &&
        peak !== null && (
          <Plot
            intensity={row.arithmetic_intensity}
            rate={row.tflops_per_second}
            bandwidth={bandwidth}
            peak={peak}
            precision={precision}
          />
        )}
    </>
  );
}

interface PlotProps {
  readonly intensity: number;
  readonly rate: number;
  /** Unit: GB/s. */
  readonly bandwidth: number;
  /** Unit: TFLOP/s. */
  readonly peak: number;
  readonly precision: string;
}

function Plot({ intensity, rate, bandwidth, peak, precision }: PlotProps) {
  const ridge = (peak * 1e3) / bandwidth;
  const low = Math.log10(Math.min(intensity, ridge)) - MARGIN;
  const high = Math.log10(Math.max(intensity, ridge)) + MARGIN;
  const floor = Math.min(Math.log10(rate), Math.log10((bandwidth * 10 ** low) / 1e3)) - 0.2;
  const top = Math.log10(Math.max(peak, rate)) + 0.3;
  const x = (value: number) => ((Math.log10(value) - low) / (high - low)) * WIDTH;
  const y = (value: number) => HEIGHT - ((Math.log10(value) - floor) / (top - floor)) * HEIGHT;
  const roof = [
    [10 ** low, (bandwidth * 10 ** low) / 1e3],
    [ridge, peak],
    [10 ** high, peak],
  ] as const;
  const words = t("{rate} TFLOP/s at {intensity} operations per byte", {
    rate: number(rate),
    intensity: number(intensity),
  });
  return (
    <figure class="marks roofline-point">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={words}>
        <polyline points={roof.map(([a, b]) => `${x(a)},${y(b)}`).join(" ")} />
        <circle cx={x(intensity)} cy={y(rate)} r={5}>
          <title>{words}</title>
        </circle>
      </svg>
      <figcaption>
        <span class="marks-words">{words}</span>
        <span>{`${number(bandwidth)} GB/s, ${precision} ${number(peak)} TFLOP/s`}</span>
      </figcaption>
    </figure>
  );
}
