/** One profile in the list: open it, give it another name, delete it. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, apiUrl, sendJson, toApiError } from "../../api/client";
import type { ProfileItem, RemovedProfile } from "../../api/types";
import { t } from "../../i18n";
import { ErrorNote } from "../../ui/states";

export interface ProfileRowProps {
  readonly item: ProfileItem;
  readonly isShown: boolean;
  readonly onChanged: () => void;
}

type Mode = "plain" | "rename" | "delete";

export function ProfileRow({ item, isShown, onChanged }: ProfileRowProps): JSX.Element {
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
          <span class="profiles-file">{item.file_name}</span>
          <button
            type="button"
            class="button"
            aria-label={t("Rename {name}", { name })}
            onClick={() => setMode("rename")}
          >
            {t("Rename")}
          </button>
          <button
            type="button"
            class="button"
            aria-label={t("Delete {name}", { name })}
            onClick={() => setMode("delete")}
          >
            {t("Delete")}
          </button>
        </div>
      )}
      {error !== null && <ErrorNote error={error} />}
    </li>
  );
}

interface RenameProps {
  readonly name: string;
  readonly onSave: (name: string) => void;
  readonly onCancel: () => void;
}

function Rename({ name, onSave, onCancel }: RenameProps): JSX.Element {
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
      <button type="button" class="button" onClick={onCancel}>
        {t("Cancel")}
      </button>
    </form>
  );
}

interface ConfirmProps {
  readonly item: ProfileItem;
  readonly onDelete: () => void;
  readonly onCancel: () => void;
}

function Confirm({ item, onDelete, onCancel }: ConfirmProps): JSX.Element {
  return (
    <div class="profiles-row">
      <span class="profiles-name">
        {item.is_stored === true
          ? t("{file} is stored by the viewer and will be deleted permanently.", {
              file: item.file_name,
            })
          : t("“{file}” will be removed from the list. The file will not be deleted.", {
              file: item.file_name,
            })}
      </span>
      <button
        type="button"
        class="button button-primary"
        ref={(element) => element?.focus()}
        onClick={onDelete}
      >
        {item.is_stored === true ? t("Delete") : t("Remove from the list")}
      </button>
      <button type="button" class="button" onClick={onCancel}>
        {t("Keep")}
      </button>
    </div>
  );
}
