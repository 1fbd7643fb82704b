/** Start, stop, key node and the button that makes a new aggregation of them. */

import { useState } from "preact/hooks";
import { type ApiError, toApiError } from "../../api/client";
import { t } from "../../i18n";
import { isActive, useJobControl } from "../../state/jobs";
import { navigate } from "../../state/location";
import { useScope } from "../../state/scope";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/icons";
import { ErrorNote } from "../../ui/states";
import { IterationInput } from "./IterationInput";
import { KeyNodeDialog } from "./KeyNodeDialog";
import { type Draft, draftProblem, isChanged, type LastIndex, requestOf } from "./reaggregation";

function changeDraft(patch: Record<string, string | null>): void {
  navigate(patch, { replace: true });
}

export function ReaggregateForm({ draft, last }: { draft: Draft; last: LastIndex }) {
  const { aggregation, profile } = useScope();
  const jobs = useJobControl();
  const [isPicking, setPicking] = useState(false);
  const [isSending, setSending] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const isBusy = jobs.job !== null && jobs.isOwn && isActive(jobs.job);
  const isOff = !profile.can_reaggregate;
  const hasChanged = isChanged(draft, aggregation);
  const problem = draftProblem(draft, aggregation, last);
  const keyNode = draft.keyName ?? draft.keyNode ?? "";
  const close = () => setPicking(false);
  const send = () => {
    setSending(true);
    setError(null);
    jobs
      .start(requestOf(draft, aggregation))
      .catch((reason: unknown) => setError(toApiError(reason)))
      .then(() => setSending(false));
  };
  return (
    <section class="reaggregate" aria-label={t("Re-aggregate")}>
      {(["start", "stop"] as const).map((end) => (
        <IterationInput
          key={end}
          label={end === "start" ? t("Select iteration start") : t("Select iteration stop")}
          value={draft[end]}
          last={last}
          isOff={isOff}
          onChange={(value) => changeDraft({ [end]: String(value) })}
        />
      ))}
      <span class="field field-wide">
        <label class="field-label" for="key-node">
          {t("Select key node")}
        </label>
        <span class="input-group">
          <input
            id="key-node"
            class="input input-mono"
            type="text"
            readOnly
            value={keyNode}
            placeholder={t("none: one interval for the whole profile")}
            title={keyNode === "" ? undefined : keyNode}
          />
          <Button
            aria-label={t("Choose key node")}
            disabled={isOff}
            onClick={() => setPicking(true)}
          >
            <Icon name="key" /> {t("Choose")}
          </Button>
        </span>
      </span>
      <span class="reaggregate-actions">
        <Button
          class="button button-primary"
          disabled={isOff || isBusy || isSending || !hasChanged || problem !== null}
          onClick={send}
        >
          {t("Reaggregate")}
        </Button>
        {hasChanged && (
          <Button
            onClick={() => changeDraft({ start: null, stop: null, key_node: null, key_name: null })}
          >
            {t("Undo")}
          </Button>
        )}
      </span>
      <FormNote isBusy={isBusy} problem={hasChanged ? problem : null} />
      {error !== null && <ErrorNote error={error} />}
      {isPicking && (
        <KeyNodeDialog
          current={draft.keyNode}
          onClose={close}
          onPick={({ id, name }) => {
            changeDraft({ key_node: id, key_name: name === id ? null : name });
            close();
          }}
        />
      )}
    </section>
  );
}

function FormNote({ isBusy, problem }: { isBusy: boolean; problem: string | null }) {
  const { profile } = useScope();
  let text = t(
    "Change a field to aggregate other iterations. Type, use the arrow keys, or turn the mouse wheel over a number.",
  );
  if (!profile.can_reaggregate) {
    text = profile.cannot_reaggregate_reason ?? t("This profile cannot be re-aggregated.");
  } else if (isBusy) {
    text = t("A re-aggregation is running: the next one can start when it has finished.");
  } else if (problem !== null) {
    text = problem;
  }
  return (
    <p class={problem === null ? "form-note" : "form-note form-problem"} role="status">
      {text}
    </p>
  );
}
