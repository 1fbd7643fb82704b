/** Turns the pages of docs/views, once when the page is built, into what a dialog shows of them. */

import { Marked } from "marked";

const reader = new Marked({
  renderer: {
    /** The first heading is the title of the dialog. */
    heading({ depth, tokens }) {
      return depth === 1 ? "" : `<h3>${this.parser.parseInline(tokens)}</h3>\n`;
    },
    /** Pictures are for who reads the files: here is the view itself. */
    image: () => "",
    /** Other pages of the documentation are not served. */
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      return /^https?:/.test(href)
        ? `<a href="${href}" target="_blank" rel="noreferrer">${text}</a>`
        : text;
    },
  },
});

export function docs() {
  return {
    name: "docs",
    transform(text, id) {
      if (!id.endsWith(".md")) return null;
      const html = reader.parse(text).replaceAll("<p></p>\n", "");
      return { code: `export default ${JSON.stringify(html)};`, map: null };
    },
  };
}
