/** The form that adds a profile: a file of this computer, or one that the server can read. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { type ApiError, apiUrl, isAbort, postJson, toApiError } from "../../api/client";
import { t } from "../../i18n";
import { formatPct } from "../../lib/units";
import { forgetUpload, uploadFile } from "../../state/uploads";
import { ErrorNote } from "../../ui/states";

interface Work {
  readonly text: string;
  readonly share: number | null;
}

export function AddProfile({ onAdded }: { onAdded: () => void }): JSX.Element {
  const [file, setFile] = useState<File | null>(null);
  const [path, setPath] = useState("");
  const [name, setName] = useState("");
  const [work, setWork] = useState<Work | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [said, setSaid] = useState("");
  const stop = useRef<AbortController | null>(null);
  const picker = useRef<HTMLInputElement>(null);

  const dropFile = () => {
    setFile(null);
    if (picker.current !== null) picker.current.value = "";
  };
  const clear = () => {
    dropFile();
    setPath("");
    setName("");
  };
  // A file and a path exclude each other: the later choice is meant, and an old error is not of it.
  const chooseFile = (chosen: File | null) => {
    setFile(chosen);
    if (chosen !== null) setPath("");
    setError(null);
  };
  const typePath = (typed: string) => {
    setPath(typed);
    if (typed.trim() !== "") dropFile();
    setError(null);
  };
  const add = async () => {
    const controller = new AbortController();
    stop.current = controller;
    const rest = name.trim() === "" ? {} : { name: name.trim() };
    if (file === null) {
      setWork({ text: t("Looking at the file"), share: null });
      await postJson(apiUrl("profiles/"), { path: path.trim(), ...rest });
      return;
    }
    const report = (share: number) => setWork({ text: t("Uploading"), share });
    const upload = await uploadFile(file, report, controller.signal);
    setWork({ text: t("Looking at the file"), share: null });
    forgetUpload(file);
    await postJson(apiUrl("profiles/"), { upload, ...rest });
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setError(null);
    setSaid("");
    add()
      .then(() => {
        setSaid(t("Added. A profile that has to be imported appears when that is done."));
        clear();
        onAdded();
      })
      .catch((reason: unknown) => {
        if (isAbort(reason)) setSaid(t("Stopped. Choose the same file again to go on."));
        else setError(toApiError(reason));
      })
      .finally(() => setWork(null));
  };
  const isReady = work === null && (file !== null || path.trim() !== "");
  return (
    <form class="profiles-add" onSubmit={submit} aria-label={t("Add a profile")}>
      <h3>{t("Add a profile")}</h3>
      <p class="help-note">
        {t(
          "An SQLite export of Nsight Systems, a .nsys-rep, a trace of torch.profiler, or a database that dlprof wrote.",
        )}
      </p>
      <div class="profiles-fields">
        <label class="field">
          <span class="field-label">{t("A file of this computer")}</span>
          <input
            ref={picker}
            type="file"
            class="input"
            data-initial
            disabled={work !== null}
            onChange={(event) => chooseFile(event.currentTarget.files?.[0] ?? null)}
          />
        </label>
        <label class="field">
          <span class="field-label">{t("Or a path on the server")}</span>
          <input
            class="input input-mono"
            value={path}
            disabled={work !== null}
            onInput={(event) => typePath(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span class="field-label">{t("Name (optional)")}</span>
          <input
            class="input"
            value={name}
            maxLength={200}
            disabled={work !== null}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button button-primary" disabled={!isReady}>
          {t("Add")}
        </button>
      </div>
      {work !== null && <Progress work={work} onStop={() => stop.current?.abort()} />}
      <p class="profiles-said" role="status">
        {said}
      </p>
      {error !== null && <ErrorNote error={error} />}
    </form>
  );
}

function Progress({ work, onStop }: { work: Work; onStop: () => void }): JSX.Element {
  const pct = work.share === null ? null : work.share * 100;
  return (
    <div class="profiles-progress">
      <progress max={100} value={pct ?? undefined} aria-label={work.text} />
      <span>
        {work.text}
        {pct !== null && ` ${formatPct(pct)} %`}
      </span>
      {pct !== null && (
        <button type="button" class="button" onClick={onStop}>
          {t("Stop")}
        </button>
      )}
    </div>
  );
}
