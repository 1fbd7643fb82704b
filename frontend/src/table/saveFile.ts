/** Gives the reader a file that the page made itself. */

import { getJson } from "../api/client";
import { saveBlob } from "../lib/saveBlob";

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
