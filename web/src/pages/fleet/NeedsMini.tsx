import { Link } from "@tanstack/react-router";
import type { NeedItem } from "../../api/types";
import { capital } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { useNeeds } from "../../shell/needs";
import { useProduct } from "../../shell/ProductSwitcher";
import { Age } from "../../ui/Age";
import { Glyph } from "../../ui/Glyph";
import { Panel, Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { Words } from "../../ui/Words";
import { groupOf, lookOf } from "../needs/look";

const SHOWN = 5;

/** The first five of Needs me, without what the alerts beside it already say. */
export function NeedsMini() {
  const { items, total, totalText, error, refetch } = useNeeds(useProduct());
  const isCurrent = useIsCurrent();
  const jobs = items?.filter((item) => groupOf(item.kind) !== "fleet") ?? [];
  return (
    <Panel
      title="Needs me"
      sub={jobs.length > SHOWN ? `first ${SHOWN} of ${totalText}` : null}
      right={
        total > 0 ? (
          <Link className="link" to="/needs-me">
            All {totalText}
          </Link>
        ) : undefined
      }
    >
      {error !== null && <PanelError error={error} retry={() => void refetch()} />}
      {items === undefined ? (
        error === null && <Skeleton />
      ) : jobs.length === 0 ? (
        <div className="empty">
          <div>
            <h2>{isCurrent ? "Nothing needs you" : "Nothing needed you when the coordinator last answered"}</h2>
            <p className="dim">Questions, failed jobs and work that is ready to ship appear here.</p>
          </div>
        </div>
      ) : (
        <ol className="mini">
          {jobs.slice(0, SHOWN).map((item) => (
            <Row key={item.key} item={item} />
          ))}
        </ol>
      )}
    </Panel>
  );
}

function Row({ item }: { item: NeedItem }) {
  const look = lookOf(item.kind);
  return (
    <li>
      <span className={`st ${look.className}`}>
        <Glyph name={look.glyph} />
      </span>
      <div className="what">
        {item.jobId == null ? (
          <span className="t1">
            <Words text={capital(item.text)} />
          </span>
        ) : (
          <Link className="t1" to="/jobs/$id" params={{ id: item.jobId }}>
            <Words text={capital(item.text)} />
          </Link>
        )}
        <span className="sub t1">
          <span className={look.className}>{look.word}</span> · {item.title}
        </span>
      </div>
      <Age at={item.at} className="age" />
    </li>
  );
}
