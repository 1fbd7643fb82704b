/** In the top bar: the way to a report in one file, or, in such a report, what it is. */

import { useRef, useState } from "preact/hooks";
import { type ApiError, type Download, downloadFile, isAbort, toApiError } from "../api/client";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { saveBlob } from "../lib/saveBlob";
import { formatFixed } from "../lib/units";
import { scopedUrl, useScope } from "../state/scope";
import { Button, IconButton } from "../ui/Button";
import { ErrorNote } from "../ui/states";

export function ReportPart() {
  return isReport() ? <ReportBadge /> : <ReportButton />;
}

const MIB = 2 ** 20;

/** The profile as one file: to send, to keep, to read without a server. */
function ReportButton() {
  const scope = useScope();
  const [download, setDownload] = useState<Download | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const controller = useRef<AbortController | null>(null);
  const start = () => {
    const abort = new AbortController();
    controller.current = abort;
    setError(null);
    setDownload({ received: 0, size: null });
    downloadFile(scopedUrl(scope, "report/"), setDownload, abort.signal)
      .then(({ blob, name }) => saveBlob(blob, name))
      .catch((reason: unknown) => {
        if (!isAbort(reason)) setError(toApiError(reason));
      })
      .finally(() => setDownload(null));
  };
  return (
    <>
      <IconButton
        icon="download"
        class="only-wide"
        label={t("Download this profile as a report in one file")}
        onClick={() => {
          if (download === null) start();
        }}
      />
      {(download !== null || error !== null) && (
        <section class="report-progress" role="status" aria-label={t("Report in one file")}>
          {download !== null && (
            <Progress download={download} onCancel={() => controller.current?.abort()} />
          )}
          {error !== null && <ErrorNote error={error} onRetry={start} />}
        </section>
      )}
    </>
  );
}

/** How far it is: the server writes the whole file before it sends the first byte. */
function Progress(props: { download: Download; onCancel: () => void }) {
  const { received, size } = props.download;
  const mib = (bytes: number) => formatFixed(bytes / MIB, 1);
  const text =
    received === 0
      ? t("The server is writing the report…")
      : t("{received} of {size} MiB received", {
          received: mib(received),
          size: size === null ? "?" : mib(size),
        });
  return (
    <>
      <p>{text}</p>
      <progress
        aria-label={t("Progress")}
        {...(received > 0 && size !== null ? { max: size, value: received } : {})}
      />
      <Button onClick={props.onCancel}>{t("Cancel")}</Button>
    </>
  );
}

/** A note that this is a report in a file, not a live view of the profile. */
function ReportBadge() {
  const { aggregation } = useScope();
  const text = t("Aggregation #{id}, in one file; it needs no server.", {
    id: aggregation.id,
  });
  return (
    <span class="topbar-badge only-wide" title={text}>
      {t("Report")}
    </span>
  );
}
