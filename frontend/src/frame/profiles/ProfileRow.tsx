/** One profile in the list: open it, give it another name, delete it. */

import { useState } from "preact/hooks";
import { type ApiError, apiUrl, sendJson, toApiError } from "../../api/client";
import type { ProfileItem, RemovedProfile } from "../../api/types";
import { t } from "../../i18n";
import { countOf, formatInt } from "../../lib/units";
import { Button } from "../../ui/Button";
import { ErrorNote } from "../../ui/states";

export interface ProfileRowProps {
  readonly item: ProfileItem;
  readonly isShown: boolean;
  readonly onChanged: () => void;
}

type Mode = "plain" | "rename" | "delete";

export function ProfileRow({ item, isShown, onChanged }: ProfileRowProps) {
  const [mode, setMode] = useState<Mode>("plain");
  const [error, setError] = useState<ApiError | null>(null);
  const url = apiUrl(`profiles/${item.id}/`);
  const name = item.name === null || item.name === "" ? item.file_name : item.name;
  const act = (change: Promise<unknown>) => {
    change
      .then(() => {
        setMode("plain");
        onChanged();
      })
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  return (
    <li>
      {mode === "rename" && (
        <Rename
          name={name}
          onSave={(next) => act(sendJson<ProfileItem>("PATCH", url, { name: next }))}
          onCancel={() => setMode("plain")}
        />
      )}
      {mode === "delete" && (
        <Confirm
          item={item}
          name={name}
          onDelete={() => act(sendJson<RemovedProfile>("DELETE", url))}
          onCancel={() => setMode("plain")}
        />
      )}
      {mode === "plain" && (
        <div class="profiles-row">
          <a
            class="profiles-name"
            href={`?profile=${encodeURIComponent(item.id)}`}
            aria-current={isShown ? "true" : undefined}
          >
            {name}
          </a>
          <Button aria-label={t("Rename {name}", { name })} onClick={() => setMode("rename")}>
            {t("Rename")}
          </Button>
          <Button
            aria-label={
              item.is_stored === true
                ? t("Delete {name}", { name })
                : t("Remove {name} from the list", { name })
            }
            onClick={() => setMode("delete")}
          >
            {item.is_stored === true ? t("Delete") : t("Remove")}
          </Button>
        </div>
      )}
      <Facts item={item} />
      {error !== null && <ErrorNote error={error} />}
    </li>
  );
}

interface RenameProps {
  readonly name: string;
  readonly onSave: (name: string) => void;
  readonly onCancel: () => void;
}

function Rename({ name, onSave, onCancel }: RenameProps) {
  const [text, setText] = useState(name);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onSave(text.trim());
  };
  return (
    <form class="profiles-row" onSubmit={submit}>
      <input
        class="input profiles-name"
        aria-label={t("New name")}
        value={text}
        maxLength={200}
        ref={(element) => element?.focus()}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" class="button button-primary">
        {t("Save")}
      </button>
      <Button onClick={onCancel}>{t("Cancel")}</Button>
    </form>
  );
}

interface ConfirmProps {
  readonly item: ProfileItem;
  readonly name: string;
  readonly onDelete: () => void;
  readonly onCancel: () => void;
}

/** What distinguishes profiles of the same name: the GPU, the framework, when, how long, and where. */
function Facts({ item }: { item: ProfileItem }) {
  const gpus = item.gpu_count ?? 0;
  const facts = [
    item.gpu_name === null
      ? null
      : gpus > 1
        ? `${formatInt(gpus)} × ${item.gpu_name}`
        : item.gpu_name,
    item.framework,
    item.created_at === null ? null : item.created_at.replace("T", " ").replace("Z", " UTC"),
    item.iteration_count === null
      ? null
      : countOf(item.iteration_count, [t("iteration"), t("iterations")]),
  ];
  return (
    <p class="profiles-facts">
      {facts.filter((fact) => fact !== null && fact !== "").join(" · ")}
      <span class="profiles-file" title={item.path}>
        {item.path}
      </span>
    </p>
  );
}

function Confirm({ item, name, onDelete, onCancel }: ConfirmProps) {
  const isStored = item.is_stored === true;
  const words = { name, file: item.path };
  return (
    <div class="profiles-row">
      <span class="profiles-name">
        {isStored
          ? t(
              "Delete “{name}”? The viewer stores its file {file}, which will be deleted for good.",
              words,
            )
          : t("Remove “{name}” from the list? Its file {file} stays where it is.", words)}
      </span>
      <button
        type="button"
        class="button button-primary"
        ref={(element) => element?.focus()}
        onClick={onDelete}
      >
        {isStored ? t("Delete the file") : t("Remove from the list")}
      </button>
      <Button onClick={onCancel}>{t("Keep")}</Button>
    </div>
  );
}
