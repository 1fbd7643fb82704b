/** The timeline, whose code is loaded when it is first looked at. */

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ApiError, toApiError } from "../../api/client";
import { ErrorNote, Skeleton } from "../../ui/states";

export function LazyTimeline(): JSX.Element {
  const [view, setView] = useState<{ readonly View: ComponentType } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    import("./TimelineView").then(
      ({ TimelineView }) => setView({ View: TimelineView }),
      (failure) => setError(toApiError(failure)),
    );
  }, []);
  if (error !== null) return <ErrorNote error={error} />;
  return view === null ? <Skeleton /> : <view.View />;
}
