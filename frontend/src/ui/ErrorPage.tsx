/** The guide's error pages: no database, no profile in it, older, newer, bad parameters, and the rest. */

import type { ApiError } from "../api/client";
import type { ProfileItem } from "../api/types";
import { t } from "../i18n";
import { startOver } from "../state/location";
import { Button } from "./Button";
import { CopyButton, errorDetails } from "./states";

const TITLES: Readonly<Record<string, string>> = {
  DATABASE_NOT_FOUND: t("DLProf database not found"),
  DATABASE_FOREIGN: t("The file is not a DLProf database"),
  DATABASE_VERSION: t("This database has another version"),
  TOKEN_MISSING: t("This viewer requires its token"),
  DATABASE_BUSY: t("The database is busy"),
  PROFILE_NOT_SERVED: t("No such profile"),
  OP_NOT_FOUND: t("No such op"),
  UNKNOWN_DOMAIN: t("Bad parameters in the address"),
  INVALID_VALUE: t("Bad parameters in the address"),
  AGGREGATION_NOT_FOUND: t("No such aggregation"),
  UNKNOWN_ORDERING: t("Bad parameters in the address"),
  UNKNOWN_FILTER: t("Bad parameters in the address"),
  BAD_ADDRESS: t("Bad parameters in the address"),
  NO_ANSWER: t("The server does not respond"),
  QUERY_TIMEOUT: t("The query took too long"),
};

function titleFor(error: ApiError): string {
  if (error.code === "DATABASE_VERSION" && typeof error.details.is_newer === "boolean") {
    return error.details.is_newer
      ? t("A newer database was found")
      : t("An older database was found");
  }
  const known = TITLES[error.code];
  if (known !== undefined) return known;
  if (error.status === 404) return t("Not found");
  return error.status >= 500 ? t("Something failed in the server") : t("This page cannot be shown");
}

export interface ErrorPageProps {
  readonly error: ApiError;
  readonly onRetry?: () => void;
  /** Other profiles of the server, to go on with. */
  readonly profiles?: readonly ProfileItem[];
}

export function ErrorPage({ error, onRetry, profiles }: ErrorPageProps) {
  return (
    <div class="error-page" role="alert">
      <h1>{titleFor(error)}</h1>
      <p>{error.message}</p>
      {error.hint !== "" && <p class="error-hint">{error.hint}</p>}
      {error.code.startsWith("DATABASE_") && (
        <p class="error-hint">
          {t("Start the viewer with a database:")} <code>dlprofviewer dlprof_dldb.sqlite</code>
        </p>
      )}
      <p>
        {t("Code")} <code>{error.code}</code>
      </p>
      <div class="error-actions">
        {onRetry !== undefined && (
          <Button class="button button-primary" onClick={onRetry}>
            {t("Try again")}
          </Button>
        )}
        <Button onClick={startOver}>{t("Open the dashboard")}</Button>
        <CopyButton label={t("Copy details")} text={() => errorDetails(error)} />
      </div>
      {profiles !== undefined && profiles.length > 0 && <OtherProfiles profiles={profiles} />}
    </div>
  );
}

function OtherProfiles({ profiles }: { profiles: readonly ProfileItem[] }) {
  return (
    <section class="other-profiles">
      <h2>{t("Profiles on this server")}</h2>
      <ul>
        {profiles.map((item) => (
          <li key={item.id}>
            <a href={`?profile=${encodeURIComponent(item.id)}`}>{item.name ?? item.file_name}</a>
            {item.error != null && <span class="error-hint"> – {item.error.message}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
