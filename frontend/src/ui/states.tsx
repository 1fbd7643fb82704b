/** What stands in for data: loading, nothing there, not known, went wrong. */

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import type { Resource } from "../api/useResource";
import { t } from "../i18n";
import { copyText } from "../lib/clipboard";
import { UNKNOWN } from "../lib/units";
import { Button, IconButton } from "./Button";
import { Icon } from "./icons";

/** Gray bars in the place of what is coming. They appear after 150 ms, so quick answers don't flash. */
export function Skeleton({ lines = 4, height = 14 }: { lines?: number; height?: number }) {
  return (
    <div class="skeleton" role="status" aria-label={t("Loading")}>
      {Array.from({ length: lines }, (_, index) => (
        <span
          key={index}
          style={{ height: `${height}px`, width: `${92 - ((index * 23) % 40)}%` }}
        />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children !== undefined && <div>{children}</div>}
    </div>
  );
}

const NO_REASON = t("The database does not contain it.");

/** A dash with the reason why there is no value. */
export function Unknown({ reason }: { reason?: string | undefined }) {
  const text = reason ?? NO_REASON;
  return (
    <span class="unknown" title={`${t("Not known.")} ${text}`}>
      <span aria-hidden="true">{UNKNOWN}</span>
      <span class="visually-hidden">
        {t("Not known.")} {text}
      </span>
    </span>
  );
}

/** What is drawn of a value; a dash with the reason where it is not known. */
export function known<Value>(
  value: Value | null,
  draw: (value: Value) => ComponentChildren,
  reason?: string | undefined,
) {
  return value === null ? <Unknown reason={reason} /> : draw(value);
}

export type Fact = readonly [
  name: string,
  value: ComponentChildren | null,
  reason?: string | undefined,
];

/** Figures; those without a value say why. */
export function Facts(props: { class?: string; facts: readonly Fact[] }) {
  return (
    <dl class={props.class ?? "one-facts"}>
      {props.facts.map(([name, value, reason]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value ?? <Unknown reason={reason} />}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Everything a bug report needs, as text. */
export function errorDetails(error: ApiError): string {
  return JSON.stringify(
    {
      code: error.code,
      status: error.status,
      message: error.message,
      hint: error.hint,
      details: error.details,
      page: window.location.href,
    },
    null,
    2,
  );
}

/** Copies a text; the first value is true for a moment after it was copied. */
export function useCopy(text: () => string): [isCopied: boolean, copy: () => void] {
  const [isCopied, setCopied] = useState(false);
  const copy = () => {
    copyText(text()).then(
      () => {
        setCopied(true);
        window.setTimeout(() => setCopied(false), 1500);
      },
      () => window.prompt(t("The browser refused to copy. The text:"), text()),
    );
  };
  return [isCopied, copy];
}

export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const [isCopied, copy] = useCopy(text);
  return (
    <Button onClick={copy}>
      <Icon name={isCopied ? "check" : "copy"} />
      <span aria-live="polite">{isCopied ? t("Copied") : label}</span>
    </Button>
  );
}

/** An error where a panel or table would be: sentence, hint, code. */
export function ErrorNote({ error, onRetry }: { error: ApiError; onRetry?: () => void }) {
  return (
    <div class="error-note" role="alert">
      <Icon name="alert" />
      <div>
        <p class="error-message">{error.message}</p>
        {error.hint !== "" && <p class="error-hint">{error.hint}</p>}
        <div class="error-actions">
          <code>{error.code}</code>
          {onRetry !== undefined && <Button onClick={onRetry}>{t("Try again")}</Button>}
          <CopyButton label={t("Copy details")} text={() => errorDetails(error)} />
        </div>
      </div>
    </div>
  );
}

/** The usual three answers of a resource: an error note, a skeleton, or the children. */
export function Loaded<T>(props: {
  resource: Resource<T>;
  skeleton?: ComponentChildren;
  children: (data: T) => ComponentChildren;
}) {
  const { resource, skeleton, children } = props;
  if (resource.error !== null)
    return <ErrorNote error={resource.error} onRetry={resource.reload} />;
  if (resource.data === null) return <>{skeleton ?? <Skeleton />}</>;
  return <Current isStale={resource.isStale}>{children(resource.data)}</Current>;
}

function Current(props: { isStale: boolean; children: ComponentChildren }) {
  const dimmed = useDimmed<HTMLDivElement>(props.isStale);
  return (
    <div
      ref={dimmed}
      class={props.isStale ? "loaded is-stale" : "loaded"}
      aria-busy={props.isStale}
    >
      {props.children}
    </div>
  );
}

export function CopyCommand({ command }: { command: string }) {
  const [isCopied, copy] = useCopy(() => command);
  return (
    <span class="copy-command">
      <code>{command}</code>
      <IconButton
        icon={isCopied ? "check" : "copy"}
        label={t("Copy the command")}
        size={14}
        onClick={copy}
      />
    </span>
  );
}

const PATIENCE_MS = 150;

/** Goes to the element, whose content is not drawn again for it. */
export function useDimmed<Type extends HTMLElement>(isStale: boolean): RefObject<Type | null> {
  const element = useRef<Type>(null);
  useEffect(() => {
    if (!isStale) return;
    const shown = element.current?.classList;
    const timer = setTimeout(() => shown?.add("is-dimmed"), PATIENCE_MS);
    return () => {
      clearTimeout(timer);
      shown?.remove("is-dimmed");
    };
  }, [isStale]);
  return element;
}
