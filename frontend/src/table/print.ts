/** Prints a table: all of its filtered rows on paper, without the page around them. */

const AREA = "print-area";

export interface Printed {
  readonly title: string;
  readonly notes: readonly string[];
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

function cell(tag: "th" | "td", text: string): HTMLElement {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

function row(tag: "th" | "td", texts: readonly string[]): HTMLElement {
  const element = document.createElement("tr");
  element.append(...texts.map((text) => cell(tag, text)));
  return element;
}

function drawn(printed: Printed): HTMLElement {
  const area = document.createElement("section");
  area.id = AREA;
  const title = document.createElement("h1");
  title.textContent = printed.title;
  const notes = printed.notes.map((note) => {
    const line = document.createElement("p");
    line.textContent = note;
    return line;
  });
  const table = document.createElement("table");
  const head = table.createTHead();
  head.append(row("th", printed.header));
  const body = table.createTBody();
  body.append(...printed.rows.map((texts) => row("td", texts)));
  area.append(title, ...notes, table);
  return area;
}

/** Opens the browser's print dialog; the page is as it was when that closes. */
export function printTable(printed: Printed): void {
  document.getElementById(AREA)?.remove();
  document.body.append(drawn(printed));
  const done = () => document.getElementById(AREA)?.remove();
  window.addEventListener("afterprint", done, { once: true });
  window.print();
}
