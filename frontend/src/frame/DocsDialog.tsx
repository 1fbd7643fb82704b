/** A page of the documentation over the view that it is about. */

import { useEffect, useState } from "preact/hooks";
import { loadPage } from "../content/docs";
import { language, t } from "../i18n";
import { type Block, type Inline, parseMarkdown } from "../lib/markdown";
import { Dialog } from "../ui/Dialog";
import { Empty, Skeleton } from "../ui/states";

export function DocsDialog(props: { page: string; title: string; onClose: () => void }) {
  const { page, title, onClose } = props;
  const [blocks, setBlocks] = useState<readonly Block[] | null>(null);
  useEffect(() => {
    const missing = Promise.resolve("");
    void (loadPage(page, language) ?? missing)
      .catch(() => "")
      .then((text) => setBlocks(parseMarkdown(text)));
  }, [page]);
  return (
    <Dialog title={title} size="large" isText onClose={onClose}>
      <article class="docs" lang={language}>
        {blocks === null && <Skeleton lines={10} />}
        {blocks?.length === 0 && <Empty title={t("This page cannot be loaded")} />}
        {blocks?.map((block, index) => (
          <BlockView key={index} block={block} />
        ))}
      </article>
    </Dialog>
  );
}

function Text({ content }: { content: readonly Inline[] }) {
  return (
    <>
      {content.map((part, index) => {
        if (part.kind === "code") return <code key={index}>{part.text}</code>;
        if (part.kind === "strong") return <b key={index}>{part.text}</b>;
        if (part.kind === "em") return <i key={index}>{part.text}</i>;
        return part.text;
      })}
    </>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading":
      // The first heading is the title of the dialog.
      if (block.level === 1) return null;
      return (
        <h3>
          <Text content={block.content} />
        </h3>
      );
    case "paragraph":
      return (
        <p>
          <Text content={block.content} />
        </p>
      );
    case "list":
      return (
        <ul>
          {block.items.map((item, index) => (
            <li key={index}>
              <Text content={item} />
            </li>
          ))}
        </ul>
      );
    case "table":
      return (
        <table>
          <thead>
            <tr>
              {block.header.map((cell, index) => (
                <th key={index} scope="col">
                  <Text content={cell} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {block.rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) => (
                  <td key={column}>
                    <Text content={cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      );
  }
}
