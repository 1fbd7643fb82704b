/** The pane at the left: the views in groups and the running job; above a view, its tabs. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { isReport } from "../api/source";
import { t } from "../i18n";
import { formatPct } from "../lib/units";
import { isActive, type JobControl } from "../state/jobs";
import { patchToView } from "../state/location";
import { useScope } from "../state/scope";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/icons";
import { PageAnchor } from "../ui/PageLink";
import { type Destination, isWithin, navigationOf } from "../views/registry";

export function NavPane(props: {
  view: string;
  isFolded: boolean;
  onFold: () => void;
  onNavigate: () => void;
  onJobs: () => void;
  jobs: JobControl;
}) {
  const { view, isFolded, onFold, onNavigate, onJobs, jobs } = props;
  const foldLabel = isFolded ? t("Unfold the navigation") : t("Fold the navigation");
  return (
    <nav class="nav" aria-label={t("Views")}>
      {navigationOf(useScope()).map((group) => (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls of a form
        <div key={group.title} class="nav-group" role="group" aria-label={group.title}>
          <p class="nav-head" aria-hidden="true">
            {group.title}
          </p>
          <ul>
            {group.places.map((place) => (
              <li key={place.views[0].id}>
                <NavLink {...place} isCurrent={isWithin(place, view)} onNavigate={onNavigate} />
              </li>
            ))}
          </ul>
        </div>
      ))}
      <div class="nav-end">
        {!isFolded && <RunningJob jobs={jobs} />}
        {!isReport() && <IconButton icon="queue" label={t("Jobs")} onClick={onJobs} />}
        <IconButton
          icon="sidebar"
          label={foldLabel}
          title={`${foldLabel} ([)`}
          class="only-wide"
          aria-expanded={!isFolded}
          onClick={onFold}
        />
      </div>
    </nav>
  );
}

/** The views that share a destination of the navigation; nothing where there is only one. */
export function ViewTabs({ view }: { view: string }) {
  const places = navigationOf(useScope()).flatMap((group) => group.places);
  const place = places.find((one) => one.views.some(({ id }) => id === view));
  const list = useRef<HTMLUListElement>(null);
  // Where there is no room for all of them, the current one is in sight.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another view has another tab
  useEffect(() => {
    const current = list.current?.querySelector("[aria-current]");
    current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view]);
  if (place === undefined || place.views.length < 2) return null;
  return (
    <nav class="tabs" aria-label={place.title}>
      <ul ref={list}>
        {place.views.map(({ id, title, letter }) => (
          <li key={id}>
            <PlaceLink class="tab" id={id} isCurrent={id === view} title={`${title} (g ${letter})`}>
              {title}
            </PlaceLink>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** A link that opens a view as it was left. */
function PlaceLink(props: {
  id: string;
  class: string;
  title: string;
  isCurrent: boolean;
  onNavigate?: () => void;
  children: ComponentChildren;
}) {
  return (
    <PageAnchor
      class={props.class}
      to={() => patchToView(props.id)}
      aria-current={props.isCurrent ? "page" : undefined}
      title={props.title}
      onFollow={props.onNavigate}
    >
      {props.children}
    </PageAnchor>
  );
}

function NavLink(props: Destination & { isCurrent: boolean; onNavigate: () => void }) {
  const { id, letter } = props.views[0];
  return (
    <PlaceLink
      class="nav-link"
      id={id}
      isCurrent={props.isCurrent}
      title={`${props.title} (g ${letter})`}
      onNavigate={props.onNavigate}
    >
      <Icon name={props.icon} />
      <span class="nav-text">{props.title}</span>
    </PlaceLink>
  );
}

function RunningJob({ jobs }: { jobs: JobControl }) {
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
