import { Link } from "@tanstack/react-router";
import { useIsCurrent } from "../../live";
import { type Need, useNeeds } from "../../shell/needs";
import { useProduct } from "../../shell/ProductSwitcher";
import { Age } from "../../ui/Age";
import { Glyph } from "../../ui/Glyph";
import { Panel, Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { NEED_LOOK, NeedText } from "../needs/NeedText";

const SHOWN = 5;

/** The first five of Needs me, without what the alerts beside it already say. */
export function NeedsMini() {
  const { needs, error, refetch } = useNeeds(useProduct());
  const isCurrent = useIsCurrent();
  const jobs = needs?.filter((need) => need.job !== undefined) ?? [];
  const all = needs?.length ?? 0;
  return (
    <Panel
      title="Needs me"
      sub={jobs.length > SHOWN ? `first ${SHOWN} of ${jobs.length}` : null}
      right={
        all > 0 ? (
          <Link className="link" to="/needs-me">
            All {all}
          </Link>
        ) : undefined
      }
    >
      {error !== null && <PanelError error={error} retry={() => void refetch()} />}
      {needs === undefined ? (
        error === null && <Skeleton />
      ) : jobs.length === 0 ? (
        <div className="empty">
          <div>
            <h2>{isCurrent ? "Nothing needs you" : "Nothing needed you when the coordinator last answered"}</h2>
            <p className="dim">Questions, reviews, failed jobs and work that is ready to ship appear here.</p>
          </div>
        </div>
      ) : (
        <ol className="mini">
          {jobs.slice(0, SHOWN).map((need) => (
            <Row key={need.key} need={need} />
          ))}
        </ol>
      )}
    </Panel>
  );
}

function Row({ need }: { need: Need }) {
  const look = NEED_LOOK[need.kind];
  if (need.job === undefined) return null;
  return (
    <li>
      <span className={`st ${look.className}`}>
        <Glyph name={look.glyph} />
      </span>
      <div className="what">
        <Link className="t1" to="/jobs/$id" params={{ id: need.job.id }}>
          <NeedText need={need} />
        </Link>
        <span className="sub t1">
          <span className={look.className}>{look.word}</span> · {need.job.title}
        </span>
      </div>
      <Age at={need.at} className="age" />
    </li>
  );
}
