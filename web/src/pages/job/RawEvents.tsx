import { useQuery } from "@tanstack/react-query";
import { jobEventsQuery } from "../../api/queries";
import type { JobEvent } from "../../api/types";
import { Clock } from "../../ui/Age";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { Words } from "../../ui/Words";
import { actor, eventLook } from "./Timeline";

export function RawEvents({ id }: { id: string }) {
  const query = useQuery(jobEventsQuery(id));
  return (
    <QueryPanel title="Events" query={query} sub={(events) => `${events.length}, oldest first, times in UTC`}>
      {(events) => (
        <ol className="raw">
          {events.map((event) => (
            <Row key={event.seq} event={event} />
          ))}
        </ol>
      )}
    </QueryPanel>
  );
}

function Row({ event }: { event: JobEvent }) {
  const look = eventLook(event);
  return (
    <li>
      <details>
        <summary>
          <span className="num dim">{event.seq}</span>
          <Clock at={event.at} />
          <span className={`st ${look.className}`}>
            <Glyph name={look.glyph} />
            {event.kind}
          </span>
          <span className="wrap-any t">
            <Words text={event.text ?? ""} />
          </span>
          <span className="dim">
            {actor(event)} · epoch {event.epoch}
          </span>
        </summary>
        <pre className="out">{JSON.stringify(event, null, 2)}</pre>
      </details>
    </li>
  );
}
