/** Short texts for the names of a table that differ wherever the names do. Pure functions only. */

const CUT = "…";
const HAS_INDEX = /\d/;

export interface ShortNames {
  /** Beginning of all names, which is left out of the texts: "/iteration #/"; empty: none. */
  readonly prefix: string;
  readonly text: (name: string) => string;
}

/** Leading parts that all paths have in common; at least the last part of each is left. */
function commonPrefix(names: readonly string[]): string {
  const [first = "", ...others] = names;
  if (others.length === 0 || !first.startsWith("/")) return "";
  let length = first.lastIndexOf("/") + 1;
  for (const name of others) {
    while (length > 0 && !name.startsWith(first.slice(0, length))) {
      // A search from before the first letter would find that of the beginning again.
      length = length < 2 ? 0 : first.lastIndexOf("/", length - 2) + 1;
    }
  }
  return length > 1 ? first.slice(0, length) : "";
}

function middleCut(name: string, letters: number): string {
  if (name.length <= letters) return name;
  const tail = Math.floor((letters - 1) / 2);
  return `${name.slice(0, letters - 1 - tail)}${CUT}${name.slice(name.length - tail)}`;
}

/** The kept parts of a path, with a mark where some are left out. */
function rendered(parts: readonly string[], kept: ReadonlySet<number>): string {
  let text = "";
  let last = -1;
  parts.forEach((part, place) => {
    if (!kept.has(place)) return;
    const isNext = place === last + 1;
    text += isNext ? (place === 0 ? "" : "/") : `${text === "" ? "" : "/"}${CUT}/`;
    text += part;
    last = place;
  });
  return text;
}

/** A path in so many letters: its last part, then parts with an index, then others from the end. */
function shortPath(name: string, letters: number, needed: readonly number[]): string {
  if (name.length <= letters) return name;
  const parts = name.split("/");
  const places = parts.map((_, place) => place).reverse();
  const wanted = [
    ...needed,
    ...places.filter((place) => HAS_INDEX.test(parts[place] ?? "")),
    ...places,
  ];
  const kept = new Set([parts.length - 1]);
  for (const place of wanted) {
    const more = new Set(kept).add(place);
    if (needed.includes(place) || rendered(parts, more).length <= letters) kept.add(place);
  }
  const text = rendered(parts, kept);
  return needed.length === 0 && kept.size === 1 ? middleCut(text, letters) : text;
}

/** Places of the parts in which paths differ. */
function differing(names: readonly string[]): readonly number[] {
  const paths = names.map((name) => name.split("/"));
  const longest = Math.max(...paths.map((parts) => parts.length));
  return Array.from({ length: longest }, (_, place) => place).filter(
    (place) => new Set(paths.map((parts) => parts[place])).size > 1,
  );
}

/** A name from its beginning, and from where it differs from others, in so many letters. */
function fromDifference(name: string, others: readonly string[], letters: number): string {
  const same = Math.min(
    ...others.map((other) => {
      let place = 0;
      while (place < name.length && name[place] === other[place]) place += 1;
      return other === name ? Number.POSITIVE_INFINITY : place;
    }),
  );
  const head = name.slice(0, Math.min(same, Math.floor(letters / 3)));
  const room = letters - head.length - 2;
  const start = Math.max(Math.min(same - 2, name.length - room), head.length);
  const rest = name.slice(start, start + room);
  return `${head}${start > head.length ? CUT : ""}${rest}${start + room < name.length ? CUT : ""}`;
}

function unlike(names: readonly string[], letters: number): readonly string[] {
  if (names.every((name) => name.includes("/"))) {
    const places = differing(names);
    return names.map((name) => shortPath(name, letters, places.slice(0, name.split("/").length)));
  }
  return names.map((name) => fromDifference(name, names, letters));
}

/** Texts of at most so many letters; longer ones only where they would be the same otherwise. */
export function shortNames(all: readonly string[], letters: number): ShortNames {
  const names = [...new Set(all)];
  const prefix = commonPrefix(names);
  const texts = new Map<string, string>();
  const byText = (name: string, text: string, groups: Map<string, string[]>) =>
    groups.set(text, [...(groups.get(text) ?? []), name]);
  const first = new Map<string, string[]>();
  for (const name of names) {
    const own = name.slice(prefix.length);
    byText(name, own.includes("/") ? shortPath(own, letters, []) : middleCut(own, letters), first);
  }
  const taken = new Set([...first].flatMap(([text, same]) => (same.length === 1 ? [text] : [])));
  for (const [text, same] of first) {
    if (same.length === 1) {
      texts.set(same[0] ?? "", text);
      continue;
    }
    const own = same.map((name) => name.slice(prefix.length));
    unlike(own, letters).forEach((other, place) => {
      const shown = taken.has(other) ? (own[place] ?? "") : other;
      taken.add(shown);
      texts.set(same[place] ?? "", shown);
    });
  }
  return { prefix, text: (name) => texts.get(name) ?? name };
}
