/** The pages of docs/views, one for each view: part of the build, loaded when one is opened. */

const PAGES = import.meta.glob<string>("../../../docs/views/*.md", {
  query: "?raw",
  import: "default",
});

/** The text of a page; null when there is none of that name. */
export function loadPage(name: string): Promise<string> | null {
  const load = PAGES[`../../../docs/views/${name}.md`];
  return load === undefined ? null : load();
}
