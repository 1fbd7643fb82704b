/** Values of many iterations as few marks. Pure functions only. */

export interface Span {
  /** First and last iteration, inclusive. */
  readonly first: number;
  readonly last: number;
  readonly least: number;
  readonly median: number;
  readonly most: number;
}

/** The value below which a share of the sorted values lie; between two of them by their distance. */
export function quantile(sorted: readonly number[], share: number): number {
  const place = (sorted.length - 1) * share;
  const low = sorted[Math.floor(place)] ?? 0;
  const high = sorted[Math.ceil(place)] ?? 0;
  return low + (high - low) * (place - Math.floor(place));
}

/** At most `count` spans of equally many iterations, so that each is a pixel or more. */
export function spans(
  index: readonly number[],
  values: readonly number[],
  count: number,
): readonly Span[] {
  const size = Math.max(1, Math.ceil(values.length / count));
  return Array.from({ length: Math.ceil(values.length / size) }, (_, place) => {
    const from = place * size;
    const part = values.slice(from, from + size).toSorted((a, b) => a - b);
    return {
      first: index[from] ?? 0,
      last: index[from + part.length - 1] ?? 0,
      least: part[0] ?? 0,
      median: quantile(part, 0.5),
      most: part.at(-1) ?? 0,
    };
  });
}
