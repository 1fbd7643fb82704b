/** Talks to /api/v1 on the same host. Every failure comes out as an ApiError. */

import { language, t } from "../i18n";
import { reportLost } from "./connection";
import type { ApiErrorBody } from "./lists";
import { currentSource } from "./source";

/** The path below which a proxy serves the viewer, from a meta element of the page. */
export const PREFIX =
  typeof document === "undefined"
    ? ""
    : (document.querySelector('meta[name="dlprof-prefix"]')?.getAttribute("content") ?? "");
const BASE = `${PREFIX}/api/v1/`;

/** Replies are JSON, and their sentences in the language of the page. */
const WANTED: Readonly<Record<string, string>> = {
  Accept: "application/json",
  "Accept-Language": language,
};

export type Params = Readonly<Record<string, string | number | null | undefined>>;

export class ApiError extends Error {
  override readonly name = "ApiError";
  /** HTTP status; 0 when the server did not answer at all. */
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, body: ApiErrorBody) {
    super(body.message);
    this.status = status;
    this.code = body.code;
    this.hint = body.hint;
    this.details = body.details ?? {};
  }
}

/** The address of a resource with its parameters; empty ones are left out. */
export function apiUrl(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, String(value));
  }
  const text = query.toString();
  return `${BASE}${path}${text === "" ? "" : `?${text}`}`;
}

function isErrorBody(value: unknown): value is { error: ApiErrorBody } {
  if (typeof value !== "object" || value === null || !("error" in value)) return false;
  const { error } = value;
  return typeof error === "object" && error !== null && "code" in error && "message" in error;
}

async function errorFrom(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  if (isErrorBody(body)) return new ApiError(response.status, body.error);
  return new ApiError(response.status, {
    code: `HTTP_${response.status}`,
    message: t("The server answered {status} {text}.", {
      status: response.status,
      text: response.statusText,
    }),
    hint: t("See the error in the terminal where dlprofviewer runs."),
  });
}

function noAnswer(url: string): ApiError {
  reportLost(`${PREFIX}/healthz`);
  return new ApiError(0, {
    code: "NO_ANSWER",
    message: t("The viewer's server does not respond."),
    hint: t("Is dlprofviewer still running in its terminal? Start it again, then try again."),
    details: { url },
  });
}

/** Whether a request ended because the page no longer wanted it. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** The reply of the server; a failure, or no answer at all, is an ApiError. */
async function fetched(url: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...init });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw noAnswer(url);
  }
  if (!response.ok) throw await errorFrom(response);
  return response;
}

async function request<T>(url: string, init: RequestInit): Promise<T> {
  const source = currentSource();
  if (source !== null) return (await source(url)) as T;
  const response = await fetched(url, init);
  // 204: no body.
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export function getJson<T>(url: string, signal?: AbortSignal): Promise<T> {
  return request<T>(url, { headers: WANTED, signal: signal ?? null });
}

/** The body of a reply as bytes. */
export async function getBuffer(url: string, signal: AbortSignal): Promise<ArrayBuffer> {
  return (await fetched(url, { headers: WANTED, signal })).arrayBuffer();
}

/** How much of a file has come. Unit: bytes; `size` is null while it is not known. */
export interface Download {
  readonly received: number;
  readonly size: number | null;
}

/** Fetches a file; `report` is called for each part that comes. */
export async function downloadFile(
  url: string,
  report: (download: Download) => void,
  signal: AbortSignal,
): Promise<{ readonly blob: Blob; readonly name: string }> {
  const response = await fetched(url, { headers: { "Accept-Language": language }, signal });
  const size = Number(response.headers.get("Content-Length")) || null;
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let received = 0;
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
    parts.push(part.value);
    received += part.value.length;
    report({ received, size });
  }
  const type = response.headers.get("Content-Type") ?? "";
  return { blob: new Blob(parts, { type }), name: fileName(response) };
}

/** The name that the server gives a file. */
function fileName(response: Response): string {
  const header = response.headers.get("Content-Disposition") ?? "";
  const encoded = /filename\*=utf-8''([^;]+)/i.exec(header)?.[1];
  if (encoded !== undefined) return decodeURIComponent(encoded);
  return /filename="([^"]+)"/.exec(header)?.[1] ?? "report.html";
}

function csrfToken(): string | null {
  const match = /(?:^|;\s*)csrftoken=([^;]+)/.exec(document.cookie);
  return match?.[1] === undefined ? null : decodeURIComponent(match[1]);
}

/** Headers of a change: it shows that it comes from this page. */
function changeHeaders(contentType: string): Record<string, string> {
  const headers: Record<string, string> = { ...WANTED, "Content-Type": contentType };
  const token = csrfToken();
  if (token !== null) headers["X-CSRFToken"] = token;
  return headers;
}

export function sendJson<T>(
  method: "POST" | "PATCH" | "DELETE",
  url: string,
  body: unknown = {},
): Promise<T> {
  const headers = changeHeaders("application/json");
  return request<T>(url, { method, headers, body: JSON.stringify(body) });
}

export function postJson<T>(url: string, body: unknown = {}): Promise<T> {
  return sendJson<T>("POST", url, body);
}

/** Sends a file as the body of one request; `report` gets the share that was sent, from 0 to 1. */
export function postFile<T>(
  url: string,
  file: Blob,
  report: (share: number) => void,
  signal: AbortSignal,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    // fetch does not report the progress of what it sends.
    const sending = new XMLHttpRequest();
    sending.open("POST", url);
    for (const [name, value] of Object.entries(changeHeaders("application/octet-stream"))) {
      sending.setRequestHeader(name, value);
    }
    sending.upload.onprogress = (event) => report(event.loaded / Math.max(event.total, 1));
    sending.onload = () => {
      const response = new Response(sending.response, {
        status: sending.status,
        statusText: sending.statusText,
      });
      (response.ok ? (response.json() as Promise<T>) : errorFrom(response).then(fail)).then(
        resolve,
        reject,
      );
    };
    sending.onerror = () => reject(noAnswer(url));
    sending.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => sending.abort());
    sending.send(file);
  });
}

function fail(error: ApiError): never {
  throw error;
}

/** Any failure as an ApiError, so that there is one way to show it. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(0, { code: "PAGE_ERROR", message, hint: t("Reload the page.") });
}
