/** Sends a file in parts; what broke off is gone on with, also after a reload of the page. */

import { ApiError, apiUrl, getJson, isAbort, patchPart, postJson, toApiError } from "../api/client";
import type { Upload } from "../api/types";
import { readStored, writeStored } from "./storage";

const ATTEMPTS = 6;
const FIRST_PAUSE_MS = 500;

/** What of a file names it: the same file chosen again goes on with the same upload. */
export function uploadKey(file: Pick<File, "name" | "size" | "lastModified">): string {
  return `upload:${file.name}:${file.size}:${file.lastModified}`;
}

/** Whether it may work a moment later: the network broke off, or the server is restarting. */
export function isPassing(error: ApiError): boolean {
  return error.status === 0 || error.status === 502 || error.status === 503;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = window.setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** The upload of this file that was begun before, if the server still has it; else a new one. */
async function beginOrFind(file: File, signal: AbortSignal): Promise<Upload> {
  const known = readStored(uploadKey(file));
  if (known !== null) {
    try {
      return await getJson<Upload>(apiUrl(`uploads/${known}/`), signal);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }
  const begun = await postJson<Upload>(apiUrl("uploads/"), {
    file_name: file.name,
    size_bytes: file.size,
  });
  writeStored(uploadKey(file), begun.id);
  return begun;
}

/** Sends the part that is due; where the server and the page disagree, the server is right. */
async function sendNext(file: File, upload: Upload, signal: AbortSignal): Promise<Upload> {
  const url = apiUrl(`uploads/${upload.id}/`);
  for (let attempt = 1; ; attempt += 1) {
    try {
      const now = attempt === 1 ? upload : await getJson<Upload>(url, signal);
      if (now.offset >= file.size) return now;
      const part = file.slice(now.offset, now.offset + now.chunk_bytes);
      return await patchPart<Upload>(url, part, now.offset, signal);
    } catch (error) {
      if (isAbort(error)) throw error;
      const failure = toApiError(error);
      const again = isPassing(failure) || failure.code === "UPLOAD_OFFSET";
      if (!again || attempt === ATTEMPTS) throw failure;
      await pause(FIRST_PAUSE_MS * 2 ** (attempt - 1), signal);
    }
  }
}

/** Sends a whole file; `report` hears the share that is there, from 0 to 1. */
export async function uploadFile(
  file: File,
  report: (share: number) => void,
  signal: AbortSignal,
): Promise<string> {
  let upload = await beginOrFind(file, signal);
  report(upload.offset / file.size);
  while (upload.offset < file.size) {
    upload = await sendNext(file, upload, signal);
    report(upload.offset / file.size);
  }
  return upload.id;
}

/** The upload has been used, or shall not be gone on with. */
export function forgetUpload(file: File): void {
  writeStored(uploadKey(file), null);
}
