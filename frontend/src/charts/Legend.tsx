/** The names of a figure's traces beside their colors. */

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
