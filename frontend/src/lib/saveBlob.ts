/** Gives the reader files that the page holds. */

import { getJson } from "../api/client";

export function saveBlob(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

interface SavedFile {
  readonly name: string;
  readonly type: string;
  readonly text: string;
}

/** In a report there is no server to answer an export's address with a download. */
export async function saveExport(url: string): Promise<void> {
  const file = await getJson<SavedFile>(url);
  saveBlob(new Blob([file.text], { type: file.type }), file.name);
}
