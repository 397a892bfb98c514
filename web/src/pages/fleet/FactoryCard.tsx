import { Link } from "@tanstack/react-router";
import type { FactoryView } from "../../api/types";
import { engineState, factoryState, platform } from "../../lib/factories";
import { bytes, exact, plural } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { Age } from "../../ui/Age";
import { Glyph } from "../../ui/Glyph";
import { Seats, seatsOf } from "../../ui/Seats";
import { SeatRow } from "./SeatRow";

export function FactoryCard({ factory, isCursor = false }: { factory: FactoryView; isCursor?: boolean }) {
  const isCurrent = useIsCurrent();
  const state = factoryState(factory);
  const { used, reserved } = seatsOf(factory);
  const isGone = factory.presence === "stale" || factory.presence === "stopped";
  return (
    <article className={`fac ${isCursor ? "is-cursor" : ""}`} aria-label={`Factory ${factory.id}`}>
      <div className="fac-id">
        <h3>
          <Link to="/factories/$id" params={{ id: factory.id }}>
            {factory.id}
          </Link>
          <span className={`st ${state.className}`}>
            <Glyph name={state.glyph} />
            {isCurrent ? state.word : `was ${state.word}`}
          </span>
        </h3>
        <p className={`small ${factory.presence === "stale" ? "is-bad" : "dim"}`}>
          <Heartbeat factory={factory} />
        </p>
        <p className="small dim">
          {[
            platform(factory),
            plural(factory.repos.length, "repo"),
            `v${factory.version}`,
            factory.pool != null && `pool ${factory.pool}`,
          ]
            .filter(Boolean)
            .join(" · ")}
        </p>
      </div>
      <div className="fac-cap">
        <div className="line">
          <Seats used={used} reserved={reserved} total={factory.seatLimit} gone={isGone} />
          <b>
            {factory.seats.length}/{factory.seatLimit}
          </b>
        </div>
        <ul className="engines">
          {(factory.engines ?? []).map((engine) => {
            const { text, isLimited } = engineState(engine);
            return (
              <li key={engine.name}>
                <span className="name">{engine.name}</span>
                <span className={isLimited ? "is-warn" : "dim"}>{text}</span>
              </li>
            );
          })}
          {factory.diskFreeBytes != null && (
            <li>
              <span className="name">disk</span>
              <span className="dim">{bytes(factory.diskFreeBytes)} free</span>
            </li>
          )}
        </ul>
      </div>
      {factory.seats.length === 0 ? (
        <div className="runs-mini">
          <span className="none">
            {factory.draining ? "Draining: takes no new jobs." : "No jobs are running here."}
          </span>
        </div>
      ) : (
        <ol className="runs-mini" aria-label="Running jobs">
          {factory.seats.map((seat, index) => (
            <SeatRow key={seat.jobId ?? index} seat={seat} />
          ))}
        </ol>
      )}
    </article>
  );
}

/** Presence is streamed, heartbeats are not: the age of the last one is only shown when it tells something. */
export function Heartbeat({ factory }: { factory: FactoryView }) {
  const isCurrent = useIsCurrent();
  const at = factory.lastHeartbeatAt;
  if (at == null) return "no heartbeat yet";
  if (!isCurrent)
    return (
      <>
        heartbeat at <Age at={at} />
      </>
    );
  if (factory.presence === "live") return <span title={`heartbeat at ${exact(at)}`}>connected</span>;
  return (
    <>
      no heartbeat for <Age at={at} />
    </>
  );
}
