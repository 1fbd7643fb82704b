/** The chosen event: what is known of it, and the events that it belongs to. */

import type { ComponentChildren } from "preact";
import type { RelatedEvent, Timeline, TimelineEvent } from "../../api/types";
import type { Resource } from "../../api/useResource";
import { t } from "../../i18n";
import { momentText } from "../../lib/timeline";
import { durationText, exactNs, formatInt, formatPct } from "../../lib/units";
import { currentQuery } from "../../state/location";
import { patchForView } from "../../state/query";
import { Button } from "../../ui/Button";
import { kernelPage, opPage, PageAnchor } from "../../ui/PageLink";
import { Panel } from "../../ui/Panel";
import { Loaded } from "../../ui/states";
import { valueText } from "./layout";
import type { Found, Spot } from "./scene";

const RELATIONS: Readonly<Record<string, string>> = {
  "launched by": t("launched by"),
  launched: t("launched"),
  op: t("in the op"),
  forward: t("forward"),
  backward: t("backward"),
};

/** Letters of a text that gets a line of its own. */
const LONG = 90;

export function ChosenEvent(props: {
  timeline: Timeline;
  resource: Resource<TimelineEvent>;
  /** What the picture knows of it until the rest has come. */
  preview: Found | null;
  onJump: (spot: Spot & { readonly row: number }) => void;
  onHighlight: (opId: string) => void;
  onClose: () => void;
}) {
  const { resource, timeline, preview, onJump, onHighlight, onClose } = props;
  const origin = timeline.start_ns ?? 0;
  const isWaiting = resource.data === null || resource.isStale;
  return (
    <Panel title={t("Event")} span={12} actions={<Button onClick={onClose}>{t("Close")}</Button>}>
      {isWaiting && preview !== null && (
        <NameAndTime name={preview.name} start={preview.start} duration={preview.duration} />
      )}
      <Loaded resource={resource}>
        {(event) => (
          <div class="timeline-chosen">
            <NameAndTime
              name={event.name}
              start={event.start_ns - origin}
              duration={event.duration_ns}
            />
            <dl class="timeline-facts">
              {factsOf(event).map(([name, value]) => (
                <div key={name} class={isLong(value) ? "is-long" : undefined}>
                  <dt>{name}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
            </dl>
            <OpLinks event={event} onHighlight={onHighlight} />
            <Related
              events={event.related}
              origin={origin}
              onJump={(one) =>
                onJump({
                  lane: one.lane,
                  start: one.start_ns - origin,
                  duration: one.duration_ns,
                  row: one.row_id,
                })
              }
            />
          </div>
        )}
      </Loaded>
    </Panel>
  );
}

function NameAndTime(props: { name: string; start: number; duration: number }) {
  const { name, start, duration } = props;
  return (
    <p class="timeline-event" role="status">
      <strong>{name}</strong>{" "}
      <span title={exactNs(duration)}>
        {t("{time}, at {start}", {
          time: durationText(duration),
          start: momentText(start, duration / 10),
        })}
      </span>
    </p>
  );
}

function OpLinks(props: { event: TimelineEvent; onHighlight: (opId: string) => void }) {
  const { event, onHighlight } = props;
  const { op_id: op } = event;
  if (op === null) return null;
  const inTable = { ...patchForView(currentQuery(), "ops"), "ops.f.op_id__in": op, op };
  return (
    <p class="timeline-actions">
      <Button onClick={() => onHighlight(op)}>{t("Highlight all work of this op")}</Button>
      <PageAnchor class="link" to={opPage(op)}>
        {t("Page of this op")}
      </PageAnchor>
      <PageAnchor class="link" to={inTable}>
        {t("In the table of ops")}
      </PageAnchor>
      {event.long_name !== undefined && (
        <PageAnchor class="link" to={kernelPage(event.long_name)}>
          {t("Page of this kernel")}
        </PageAnchor>
      )}
    </p>
  );
}

function isLong(value: ComponentChildren): boolean {
  return typeof value === "string" && value.length > LONG;
}

type Facts = [string, ComponentChildren][];

/** What is known, in the order in which people ask. */
function factsOf(event: TimelineEvent): Facts {
  const facts: Facts = [
    [t("Value"), sampleOf(event)],
    [t("Kernel"), event.long_name],
    [t("Op"), opOf(event)],
    [t("Type"), event.op_type],
    [t("Direction"), event.direction],
    [t("Module"), event.module],
    [t("Place among the ops"), placeOf(event)],
    [t("Uses Tensor Cores"), tensorCoreUse(event)],
    [t("Op can use Tensor Cores"), tensorCoreFit(event)],
    [t("Element type"), event.data_type],
    [t("Inputs"), event.input_shapes],
    [t("Outputs"), event.output_shapes],
    [t("Grid"), event.grid],
    [t("Block"), event.block],
    [t("Fused ops"), event.source_ops],
    [t("Size"), event.bytes == null ? null : `${formatInt(event.bytes)} B`],
    [t("Memory of the host"), event.host_memory],
    [t("GPU time"), event.gpu_time_ns === undefined ? null : durationText(event.gpu_time_ns)],
    [t("After its launch"), delayOf(event)],
  ];
  return facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
}

function opOf({ op_id: id, op_name: name }: TimelineEvent): ComponentChildren {
  if (id === null || !name) return name;
  return (
    <PageAnchor class="link" to={opPage(id)}>
      {name}
    </PageAnchor>
  );
}

function placeOf({ place, of_ops: count, share_pct: share }: TimelineEvent): string | null {
  if (place === undefined || count === undefined) return null;
  return t("{place} of {count}, {share} % of the GPU time", {
    place: formatInt(place),
    count: formatInt(count),
    share: formatPct(share ?? 0),
  });
}

function sampleOf({ value, unit }: TimelineEvent): string | null {
  if (value === undefined || unit === undefined) return null;
  const exact = unit === "bytes" ? ` (${formatInt(value)} B)` : "";
  return valueText({ unit, step: 1, most: value }, value) + exact;
}

function tensorCoreUse({ uses_tc: uses, tc_evidence: evidence }: TimelineEvent): string | null {
  if (uses === undefined) return null;
  const answer = uses === null ? t("unknown") : uses ? t("yes") : t("no");
  return `${answer} (${evidence ?? ""})`;
}

function tensorCoreFit({ tc_eligible: fits, tc_fit_reason: why }: TimelineEvent): string | null {
  return why ? `${fits === true ? t("yes") : t("no")} (${why})` : null;
}

/** Time between the end of the launching call and the start on the GPU. */
function delayOf(event: TimelineEvent): string | null {
  const { api_start_ns: start, api_time_ns: length, category } = event;
  if (category < 0 || start === undefined || !length) return null;
  return durationText(event.start_ns - start - length);
}

function Related(props: {
  events: readonly RelatedEvent[];
  origin: number;
  onJump: (event: RelatedEvent) => void;
}) {
  const { events, origin, onJump } = props;
  if (events.length === 0) return null;
  return (
    <ul class="timeline-related">
      {events.map((event) => (
        <li key={`${event.relation} ${event.lane} ${event.row_id}`}>
          <span class="timeline-relation">{RELATIONS[event.relation] ?? event.relation}</span>
          <Button class="link-button" onClick={() => onJump(event)}>
            {event.name}
          </Button>{" "}
          {t("{time}, at {start}", {
            time: durationText(event.duration_ns),
            start: momentText(event.start_ns - origin, event.duration_ns / 10),
          })}
        </li>
      ))}
    </ul>
  );
}

/** Several short events that are drawn as one. */
export function ChosenRun(props: { run: Found; onZoom: () => void; onClose: () => void }) {
  const { run, onZoom, onClose } = props;
  return (
    <Panel
      title={t("Events")}
      span={12}
      actions={
        <>
          <Button onClick={onZoom}>{t("Zoom in")}</Button>
          <Button onClick={onClose}>{t("Close")}</Button>
        </>
      }
    >
      <p class="timeline-event" role="status">
        {run.value === null
          ? t("{count} events, {time} total; most of it: {name}", {
              count: formatInt(run.count),
              time: durationText(run.busy),
              name: run.name,
            })
          : t("{count} samples, at most {value}", {
              count: formatInt(run.count),
              value: run.value,
            })}{" "}
        {run.opId !== null && (
          <PageAnchor class="link" to={opPage(run.opId)}>
            {run.opId}
          </PageAnchor>
        )}
      </p>
    </Panel>
  );
}
