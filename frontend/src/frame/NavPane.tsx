/** The pane at the left: the views, what is aggregated, which domain, the running job. */

import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { aggregationLabel } from "../lib/aggregations";
import { formatPct } from "../lib/units";
import { isActive, type JobControl } from "../state/jobs";
import { currentQuery, hrefWith, isPlainClick, navigate, patchToView } from "../state/location";
import { patchForView } from "../state/query";
import { useScope } from "../state/scope";
import { IconButton } from "../ui/IconButton";
import { Icon } from "../ui/icons";
import { type VIEWS, viewsOf } from "../views/registry";

export interface NavPaneProps {
  readonly view: string;
  readonly isFolded: boolean;
  readonly onFold: () => void;
  readonly onNavigate: () => void;
  readonly onJobs: () => void;
  readonly onAggregations: () => void;
  readonly onKeyNode: () => void;
  readonly jobs: JobControl;
}

export function NavPane(props: NavPaneProps): JSX.Element {
  const { view, isFolded, onFold, onNavigate, onJobs, onAggregations, jobs } = props;
  const views = viewsOf(useScope().profile);
  const foldLabel = isFolded ? t("Unfold the navigation") : t("Fold the navigation");
  return (
    <nav class="nav" aria-label={t("Views")}>
      <ul class="nav-views">
        {views.map((item) => (
          <li key={item.id}>
            <NavLink {...item} isCurrent={item.id === view} onNavigate={onNavigate} />
          </li>
        ))}
      </ul>
      {!isFolded && <Selectors onAggregations={onAggregations} onKeyNode={props.onKeyNode} />}
      <div class="nav-end">
        {!isFolded && <RunningJob jobs={jobs} />}
        {!isReport() && <IconButton icon="queue" label={t("Jobs")} onClick={onJobs} />}
        <IconButton
          icon="sidebar"
          label={foldLabel}
          title={`${foldLabel} ([)`}
          class="only-wide"
          isExpanded={!isFolded}
          onClick={onFold}
        />
      </div>
    </nav>
  );
}

interface NavLinkProps {
  readonly id: string;
  readonly title: string;
  readonly icon: (typeof VIEWS)[number]["icon"];
  readonly letter: string;
  readonly isCurrent: boolean;
  readonly onNavigate: () => void;
}

function NavLink({ id, title, icon, letter, isCurrent, onNavigate }: NavLinkProps): JSX.Element {
  const patch = patchToView(id);
  const open = (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    navigate(patchToView(id));
    onNavigate();
  };
  return (
    <a
      class="nav-link"
      href={hrefWith(patch)}
      aria-current={isCurrent ? "page" : undefined}
      title={`${title} (g ${letter})`}
      onClick={open}
    >
      <Icon name={icon} />
      <span class="nav-text">{title}</span>
    </a>
  );
}

function Selectors(props: { onAggregations: () => void; onKeyNode: () => void }): JSX.Element {
  const { onAggregations, onKeyNode } = props;
  const { aggregations, aggregation, profile, domain } = useScope();
  const domains = profile.domains.length > 0 ? profile.domains : [domain];
  const keyNode = aggregation.key_node;
  const selectId = useId();
  return (
    <div class="nav-selectors">
      <div class="field">
        <span class="field-label field-head">
          <label for={selectId}>{t("Aggregation")}</label>
          {!isReport() && (
            <button
              type="button"
              class="link-button"
              title={t("Name, delete or prefer aggregations")}
              onClick={onAggregations}
            >
              {t("Manage")}
            </button>
          )}
        </span>
        <select
          id={selectId}
          class="select"
          value={String(aggregation.id)}
          onChange={(event) => chooseData({ aggregation: event.currentTarget.value })}
        >
          {aggregations.map((item) => (
            <option key={item.id} value={String(item.id)}>
              {aggregationLabel(item)}
            </option>
          ))}
        </select>
      </div>
      {keyNode !== null && keyNode !== "" && (
        <button
          type="button"
          class="nav-note"
          title={t("Key node: {name}", { name: keyNode })}
          aria-label={t("Another key node than {name}", { name: keyNode })}
          disabled={!profile.can_reaggregate}
          onClick={onKeyNode}
        >
          <Icon name="key" size={12} /> <span>{keyNode}</span>
        </button>
      )}
      <label class="field">
        <span class="field-label">{t("Domain")}</span>
        <select
          class="select"
          value={domain}
          onChange={(event) => chooseData({ domain: event.currentTarget.value })}
        >
          {domains.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** Other data: what was selected in the old one (an op, a page, a zoom) means nothing there. */
function chooseData(patch: { aggregation?: string; domain?: string }): void {
  const query = currentQuery();
  navigate({ ...patchForView(query, query.get("view") ?? "dashboard"), ...patch });
}

function RunningJob({ jobs }: { jobs: JobControl }): JSX.Element | null {
  const { job } = jobs;
  if (job === null || !isActive(job)) return null;
  const pct = job.progress_pct ?? 0;
  return (
    <div class="nav-job">
      <span>
        {t("Re-aggregating")} <b>{formatPct(pct)} %</b>
      </span>
      <progress max={100} value={pct} aria-label={t("Re-aggregation")} />
    </div>
  );
}
