/** The icons, drawn on a 16 px grid with the text's color. Decorative: the label is the text. */

const PATHS = {
  dashboard: "M2.5 2.5h4.5v6h-4.5zM9 2.5h4.5v3.5h-4.5zM9 8h4.5v5.5h-4.5zM2.5 10.5h4.5v3h-4.5z",
  iterations: "M2.5 13.5h11M4 11V7M7 11V3.5M10 11V5.5M13 11V8.5",
  ops: "M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6.5 6.5v6",
  types: "M2.5 3h3v3h-3zM2.5 10h3v3h-3zM7.5 4.5h6M7.5 11.5h6",
  tree: "M2.5 2.5h4v3h-4zM9.5 6.5h4v3h-4zM9.5 11.5h4v3h-4zM4.5 5.5V13h5M4.5 8h5",
  kernels: "M2.5 4h5M2.5 8h8M2.5 12h3M9.5 4h4M12.5 8h1M7.5 12h6",
  timeline: "M2.5 2.5v11M4.5 3.5h5v2.5h-5zM7.5 7h6v2.5h-6zM4.5 10.5h3.5v2.5h-3.5z",
  gpu: "M2.5 4h11v7h-11zM5 11v2M8 11v2M11 11v2M8 9.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4z",
  memory: "M2.5 13.5h11M2.5 11.5l3-4 3 1.5 2-5 3 2v7.5h-11z",
  roofline: "M2.5 2.5v11h11M3.5 11.5L8 5.5h5.5M6.5 10.5v.1M9.5 8v.1M11.5 10v.1",
  path: "M2.5 3.5h4v9h7M6.5 8h3.5M11.5 10.5l2 2-2 2",
  ranks: "M2.5 3h11M2.5 6.5h6M2.5 10h9M2.5 13.5h4M13.5 6.5v7",
  compare: "M2.5 13.5V6.5h4v7zM9.5 13.5V2.5h4v11zM1.5 13.5h13",
  history: "M2.5 2.5v11h11M4 10.5l3-3 2.5 2 4-5",
  language:
    "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM2 8h12M8 2c2 2 2.4 4 2.4 6S10 12 8 14M8 2C6 4 5.6 6 5.6 8S6 12 8 14",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  moon: "M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z",
  book: "M8 4.2C6.6 3.1 4.7 2.8 2.5 2.8v9.6c2.2 0 4.1.3 5.5 1.4 1.4-1.1 3.3-1.4 5.5-1.4V2.8c-2.2 0-4.1.3-5.5 1.4zM8 4.2v9.6",
  mail: "M2.5 3.5h11v9h-11zM2.5 4.5L8 9l5.5-4.5",
  help: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM6.3 6.3a1.75 1.75 0 1 1 2.5 1.6c-.5.25-.8.6-.8 1.2M8 11.3v.1",
  info: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 7.3v3.6M8 5.1v.1",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3.5 8.5l3 3 6-7",
  cross: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  chevronRight: "M6 3.5l4.5 4.5L6 12.5",
  chevronLeft: "M10 3.5L5.5 8l4.5 4.5",
  chevronDown: "M3.5 6L8 10.5 12.5 6",
  doubleRight: "M3.5 3.5L8 8l-4.5 4.5M8.5 3.5L13 8l-4.5 4.5",
  first: "M4 3.5v9M12 3.5L7.5 8l4.5 4.5",
  last: "M12 3.5v9M4 3.5L8.5 8 4 12.5",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.2V8.5z",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  download: "M8 2.5v7.3M4.8 7L8 10.2 11.2 7M3 13.3h10",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  link: "M6.8 9.2l2.4-2.4M7.5 4.7l1.2-1.2a2.7 2.7 0 0 1 3.8 3.8l-1.2 1.2M8.5 11.3l-1.2 1.2a2.7 2.7 0 0 1-3.8-3.8l1.2-1.2",
  expand: "M9.5 2.5h4v4M13.5 2.5L9 7M6.5 13.5h-4v-4M2.5 13.5L7 9",
  queue: "M2.5 4h7M2.5 8h7M2.5 12h4M11.5 6.5v6M9.5 10.5l2 2 2-2",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  sidebar: "M2.5 3h11v10h-11zM6.3 3v10",
  alert: "M8 2.3l6.2 11.2H1.8zM8 6.5v3.3M8 11.6v.1",
  external: "M9 2.8h4.2V7M13.2 2.8L7.5 8.5M11.5 9.5v3.7H2.8V4.5h3.7",
  key: "M10.3 9.2a3.5 3.5 0 1 0-3.5-3.5c0 .4.1.8.2 1.2L2.5 11.4v2.1h2.6v-1.6h1.6v-1.6l1.1-1.1c.6 0 1.6 0 2.5 0zM11.3 4.7v.1",
  zoomOut: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2M5 7h4",
  folder: "M2 4.2h4.2l1.4 1.6H14v7H2zM8 8v3M6.5 9.5h3",
  minus: "M3.5 8h9",
  more: "M3.5 8v.1M8 8v.1M12.5 8v.1",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
