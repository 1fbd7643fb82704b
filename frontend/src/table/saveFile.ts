/** Gives the reader a file that the page made itself. */

import { getJson } from "../api/client";

interface SavedFile {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

/** In a report there is no server to answer an export's address with a download. */
export async function saveExport(url: string): Promise<void> {
  const file = await getJson<SavedFile>(url);
  const address = URL.createObjectURL(new Blob([file.text], { type: file.type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = file.name;
  link.click();
  URL.revokeObjectURL(address);
}
