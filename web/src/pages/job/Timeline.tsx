import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { jobEventsQuery } from "../../api/queries";
import type { JobDetail, JobEvent } from "../../api/types";
import { plural } from "../../lib/format";
import { STAGE } from "../../lib/stages";
import { Clock } from "../../ui/Age";
import { Glyph, type GlyphName } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { Words } from "../../ui/Words";
import { Gantt } from "./Gantt";

const SHOWN = 12;
const BAD = new Set<JobEvent["kind"]>([
  "reaped",
  "attempt_failed",
  "failed",
  "errand_failed",
  "dependency_failed",
  "dispatch_expired",
]);

/** Newest first, with the coordinator's own words for each event. */
export function Timeline({ job }: { job: JobDetail }) {
  const query = useQuery(jobEventsQuery(job.id));
  return (
    <QueryPanel
      title="Timeline"
      query={query}
      footer={(events) =>
        events.length > SHOWN ? (
          <Link className="link" to="/jobs/$id" params={{ id: job.id }} search={{ tab: "events" }}>
            All {events.length} events
          </Link>
        ) : null
      }
    >
      {(events) => (
        <>
          <Gantt job={job} events={events} />
          <ol className="tl">
            {condensed(events)
              .slice(0, SHOWN)
              .map(({ event, more }) => (
                <Row key={event.seq} event={event} more={more} />
              ))}
          </ol>
        </>
      )}
    </QueryPanel>
  );
}

type Entry = { event: JobEvent; more: number };

/** Newest first. Checkpoints in a row become one entry: they are many, and the last one counts. */
export function condensed(events: readonly JobEvent[]): Entry[] {
  const entries: Entry[] = [];
  for (const event of [...events].reverse()) {
    const last = entries.at(-1);
    if (event.kind === "checkpointed" && last?.event.kind === "checkpointed") last.more += 1;
    else entries.push({ event, more: 0 });
  }
  return entries;
}

export function eventLook(event: JobEvent): { glyph: GlyphName; className: string } {
  if (event.kind === "checkpointed") return { glyph: "checkpoint", className: "" };
  if (event.kind === "asked") return { glyph: "ask", className: "st-blocked" };
  if (BAD.has(event.kind)) return { glyph: "failed", className: "st-failed" };
  return STAGE[event.stage];
}

export function actor(event: JobEvent): string {
  switch (event.by.who) {
    case "person":
    case "factory":
      return event.by.name;
    case "coordinator":
      return "coordinator";
    default:
      return event.by satisfies never;
  }
}

function Row({ event, more }: Entry) {
  const look = eventLook(event);
  return (
    <li>
      <Clock at={event.at} />
      <span className={look.className}>
        <Glyph name={look.glyph} />
      </span>
      <span className="wrap-any">
        <Words text={event.text ?? event.kind.replaceAll("_", " ")} />
        {more > 0 && <span className="dim">, and {plural(more, "checkpoint")} before it</span>}
      </span>
      <span className="dim small">{actor(event)}</span>
    </li>
  );
}
