/** Starts an aggregation of some of the iterations; a job does it, and the page reports on it. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, toApiError } from "../api/client";
import { isActive, type JobControl, useJobControl } from "../state/jobs";
import { useScope } from "../state/scope";
import { Button } from "./Button";
import { ErrorNote } from "./states";

export function AggregateButton(props: {
  /** What is asked for, without the key node: that of the aggregation stays. */
  request: Omit<Parameters<JobControl["start"]>[0], "key_node">;
  isPrimary?: boolean;
  /** Why the button does nothing now. */
  disabledReason?: string | undefined;
  onStarted?: () => void;
  children: ComponentChildren;
}) {
  const { aggregation, profile } = useScope();
  const jobs = useJobControl();
  const [error, setError] = useState<ApiError | null>(null);
  const isBusy = jobs.job !== null && jobs.isOwn && isActive(jobs.job);
  const keyNode = aggregation.key_node ?? "";
  const start = () => {
    setError(null);
    jobs
      .start({ ...props.request, ...(keyNode === "" ? {} : { key_node: keyNode }) })
      .then(props.onStarted)
      .catch((reason: unknown) => setError(toApiError(reason)));
  };
  return (
    <>
      <Button
        class={props.isPrimary ? "button button-primary" : "button"}
        disabled={!profile.can_reaggregate || isBusy || props.disabledReason !== undefined}
        title={props.disabledReason}
        onClick={start}
      >
        {props.children}
      </Button>
      {error !== null && <ErrorNote error={error} />}
    </>
  );
}
