/** Components whose code is loaded when they are first shown, or before, when the browser has time. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { t } from "../i18n";
import { Skeleton } from "./states";

type Load<Props> = () => Promise<ComponentType<Props>>;

const LATER_MS = 300;
const waiting: (() => Promise<unknown>)[] = [];

/** A component that shows a skeleton until its code is there. */
export function lazily<Props extends object = object>(load: Load<Props>): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  const fetchCode = async () => {
    loaded ??= await load();
    return loaded;
  };
  waiting.push(fetchCode);
  return function Lazy(props: Props) {
    const [state, setState] = useState<"waiting" | "loaded" | "missing">("waiting");
    const Loaded = loaded;
    useEffect(() => {
      // What this rendering showed counts: the code may have come since (loadAllWhenIdle).
      if (Loaded !== null) return;
      fetchCode().then(
        () => setState("loaded"),
        () => setState("missing"),
      );
    }, []);
    if (state === "missing") throw codeMissing();
    return Loaded === null ? <Skeleton lines={8} height={20} /> : <Loaded {...props} />;
  };
}

function codeMissing(): ApiError {
  return new ApiError(503, {
    code: "CODE_NOT_LOADED",
    message: t("This part of the page could not be loaded."),
    hint: t("Load the page again: the server may have stopped, or has another version by now."),
  });
}

/** Loads the code of all views, one after the other while the browser is idle. */
export async function loadAllWhenIdle(): Promise<void> {
  for (const fetchCode of waiting.splice(0)) {
    await idle();
    await fetchCode().catch(() => undefined);
  }
}

function idle(): Promise<void> {
  return new Promise((resolve) => {
    if ("requestIdleCallback" in window) window.requestIdleCallback(() => resolve());
    else setTimeout(resolve, LATER_MS);
  });
}
