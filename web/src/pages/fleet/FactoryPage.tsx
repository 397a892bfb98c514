import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { drainFactory, removeFactory } from "../../api/actions";
import { factoriesQuery } from "../../api/queries";
import type { FactoryView } from "../../api/types";
import { engineState, factoryState, platform } from "../../lib/factories";
import { bytes, exact, plural } from "../../lib/format";
import { queries, useIsCurrent } from "../../live";
import { PageHead } from "../../shell/Bar";
import { buttonClass, WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Glyph } from "../../ui/Glyph";
import { Panel, Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { Seats, seatsOf } from "../../ui/Seats";
import { say } from "../../ui/toasts";
import { Fact } from "../job/Properties";
import { Drain } from "./Drain";
import { Heartbeat } from "./FactoryCard";
import { SeatRow } from "./SeatRow";

export function FactoryPage() {
  const { id } = useParams({ from: "/shell/factories/$id" });
  const query = useQuery(factoriesQuery);
  const factory = query.data?.items.find((one) => one.id === id);
  return (
    <div className="page">
      <PageHead
        title={id}
        crumbs={
          <nav className="crumb" aria-label="Breadcrumb">
            <Link to="/">Fleet</Link>
            <span className="sep">/</span>
            <span>{id}</span>
          </nav>
        }
      />
      {query.error !== null && (
        <div className="panel">
          <PanelError error={query.error} retry={() => void query.refetch()} />
        </div>
      )}
      {factory !== undefined ? (
        <Loaded factory={factory} />
      ) : query.data === undefined ? (
        query.error === null && <Skeleton />
      ) : (
        <Missing />
      )}
    </div>
  );
}

function Missing() {
  return (
    <div className="panel empty">
      <div>
        <h2>Not enrolled</h2>
        <p className="dim">No factory has this name. It may have been removed.</p>
      </div>
      <Link to="/" className={buttonClass()}>
        Fleet
      </Link>
    </div>
  );
}

function Loaded({ factory }: { factory: FactoryView }) {
  const [dialog, setDialog] = useState<"drain" | "remove" | null>(null);
  const navigate = useNavigate();
  const isCurrent = useIsCurrent();
  const state = factoryState(factory);
  const jobs = plural(factory.seats.length, "running job");
  const refresh = () => queries.invalidateQueries({ queryKey: ["factories"] });
  return (
    <>
      <header className="job-h">
        <div className="top">
          <span className={`st badge ${state.className}`}>
            <Glyph name={state.glyph} />
            {isCurrent ? state.word : `was ${state.word}`}
          </span>
          <h1>{factory.id}</h1>
          <div className="btns">
            <WriteButton
              onClick={() =>
                factory.draining
                  ? void drainFactory(factory.id, false)
                      .then(refresh)
                      .then(() => say(`${factory.id} accepts work again`))
                  : setDialog("drain")
              }
            >
              {factory.draining ? "Resume" : "Drain…"}
            </WriteButton>
            <WriteButton look="danger" onClick={() => setDialog("remove")}>
              Remove…
            </WriteButton>
          </div>
        </div>
      </header>
      <div className="job-cols">
        <div className="stack">
          <Panel title="Running" sub={`${factory.seats.length} of ${plural(factory.seatLimit, "seat")}`}>
            {factory.seats.length === 0 ? (
              <p className="panel-b dim">
                {isCurrent ? "No jobs are running here." : "No job was running when the coordinator last answered."}
              </p>
            ) : (
              <ol className="runs-mini panel-b">
                {factory.seats.map((seat, index) => (
                  <SeatRow key={seat.jobId ?? index} seat={seat} />
                ))}
              </ol>
            )}
          </Panel>
          <Panel title="Engines" sub={plural(factory.engines?.length ?? 0, "engine")}>
            <ul className="fits">
              {(factory.engines ?? []).map((engine) => {
                const { text, isLimited } = engineState(engine);
                return (
                  <li key={engine.name}>
                    <span className={isLimited ? "st-warn" : "st-ok"}>
                      <Glyph name={isLimited ? "warn" : "shipped"} />
                    </span>
                    <span className="strong">{engine.name}</span>
                    <span>
                      <span className={isLimited ? "is-warn" : "dim"}>{text}</span>
                      <span className="dim">
                        {[engine.version, engine.login]
                          .filter(Boolean)
                          .map((one) => ` · ${one}`)
                          .join("")}
                      </span>
                    </span>
                  </li>
                );
              })}
            </ul>
          </Panel>
          <Panel title="Capabilities" sub={String(factory.capabilities.length)}>
            <p className="panel-b tags">
              {factory.capabilities.map((one) => (
                <span key={one} className="tag mono">
                  {one}
                </span>
              ))}
            </p>
          </Panel>
          <Panel title="Repositories" sub={String(factory.repos.length)}>
            <dl className="facts panel-b">
              {factory.repos.map((repo) => (
                <Fact key={repo} name={repo}>
                  <span className="mono">{factory.repoIdentities?.[repo] ?? ""}</span>
                </Fact>
              ))}
            </dl>
          </Panel>
        </div>
        <aside className="aside">
          <section>
            <h2>Properties</h2>
            <dl className="facts">
              <Fact name="Seats">
                <Seats {...seatsOf(factory)} total={factory.seatLimit} gone={factory.presence === "stale"} />
              </Fact>
              <Fact name="Presence">
                <Heartbeat factory={factory} />
              </Fact>
              <Fact name="Platform">{platform(factory)}</Fact>
              <Fact name="Load">{factory.load.toFixed(2)}</Fact>
              <Fact name="Health">{`${Math.round(factory.health * 100)} %`}</Fact>
              {factory.diskFreeBytes != null && <Fact name="Disk free">{bytes(factory.diskFreeBytes)}</Fact>}
              {factory.receives === "broker" && <Fact name="Offers">from the broker</Fact>}
              <Fact name="Version">{factory.version}</Fact>
              <Fact name="Enrolled">{exact(factory.joinedAt).slice(0, 16)}</Fact>
            </dl>
          </section>
        </aside>
      </div>
      {dialog === "drain" && <Drain id={factory.id} onClose={() => setDialog(null)} />}
      {dialog === "remove" && (
        <Confirm
          title={`Remove ${factory.id}?`}
          verb="Remove"
          danger
          typed={factory.id}
          onClose={() => setDialog(null)}
          act={async () => {
            await removeFactory(factory.id);
            await refresh();
            await navigate({ to: "/" });
          }}
        >
          <p>Its tokens are revoked and {jobs} go back to the queue. To join again it needs a new join token.</p>
        </Confirm>
      )}
    </>
  );
}
