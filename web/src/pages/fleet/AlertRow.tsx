import { Link } from "@tanstack/react-router";
import type { Alert } from "../../api/types";
import { alertSentence, isBad } from "../../lib/alerts";
import { Age } from "../../ui/Age";
import { buttonClass } from "../../ui/Button";
import { Glyph } from "../../ui/Glyph";
import { Words } from "../../ui/Words";

/** One alert: the sentence first, the code and its subject second, the way to the remedy at the end. */
export function AlertRow({ alert }: { alert: Alert }) {
  const look = isBad(alert.code) ? "st-failed" : "st-warn";
  const subject = alert.jobTitle ?? alert.factoryId ?? null;
  return (
    <li>
      <span className={`st ${look}`}>
        <Glyph name={isBad(alert.code) ? "failed" : "warn"} />
      </span>
      <div className="what">
        <span className="t2" title={alert.message}>
          <Words text={alertSentence(alert)} />
        </span>
        <span className="sub t1">
          <span className={look}>{alert.code}</span>
          {subject !== null && ` · ${subject}`}
          {alert.jobs != null && alert.jobs > 1 && ` · ${alert.jobs} jobs`}
        </span>
      </div>
      <span className="act">
        <AlertLink alert={alert} />
      </span>
      <Age at={alert.since} className="age" />
    </li>
  );
}

function AlertLink({ alert }: { alert: Alert }) {
  const look = buttonClass("plain", true);
  if (alert.jobId != null) {
    const tab = alert.code === "unplaceable" || alert.code === "queue_starvation" ? "explain" : undefined;
    return (
      <Link to="/jobs/$id" params={{ id: alert.jobId }} search={{ tab }} className={look}>
        {tab === undefined ? "Open job" : "Show remedy"}
      </Link>
    );
  }
  if (alert.productId != null) {
    return (
      <Link to="/budgets/$id" params={{ id: alert.productId }} className={look}>
        Budget
      </Link>
    );
  }
  if (alert.code === "credential_exhausted") {
    return (
      <Link to="/admin/$tab" params={{ tab: "credentials" }} className={look}>
        Credentials
      </Link>
    );
  }
  if (alert.factoryId != null) {
    return (
      <Link to="/factories/$id" params={{ id: alert.factoryId }} className={look}>
        Open factory
      </Link>
    );
  }
  if (alert.code === "dead_letter") {
    return (
      <Link to="/dispatch" className={look}>
        Dead letters
      </Link>
    );
  }
  if (alert.code === "jobs_failed") {
    return (
      <Link to="/jobs" search={{ stage: "failed" }} className={look}>
        Failed jobs
      </Link>
    );
  }
  return null;
}
