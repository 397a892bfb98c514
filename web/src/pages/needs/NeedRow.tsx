import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { jobQuery } from "../../api/queries";
import type { JobView } from "../../api/types";
import type { Need } from "../../shell/needs";
import { Age } from "../../ui/Age";
import { Button, buttonClass, WriteButton } from "../../ui/Button";
import { Glyph } from "../../ui/Glyph";
import { Cost } from "../../ui/Money";
import { Skeleton } from "../../ui/Panel";
import { AnswerBox } from "../job/Answer";
import { type Dialog, JobDialog } from "../job/JobDialog";
import { Properties } from "../job/Properties";
import { NEED_LOOK, NeedText } from "./NeedText";

type Props = { need: Need; isCursor: boolean; isOpen: boolean; toggle: () => void };

export function NeedRow({ need, isCursor, isOpen, toggle }: Props) {
  const look = NEED_LOOK[need.kind];
  const { job, alert } = need;
  return (
    <div className={`ask ${isOpen ? "is-open" : ""} ${isCursor ? "is-cursor" : ""}`}>
      <div className="ask-row">
        <span className={`st kind ${look.className}`}>
          <Glyph name={look.glyph} />
          {alert === undefined ? look.word : alert.code.replaceAll("_", " ")}
        </span>
        <div className="q">
          <span className="t1">
            <NeedText need={need} />
          </span>
          <span className="sub t1">{job?.title ?? alert?.jobTitle ?? alert?.factoryId ?? ""}</span>
        </div>
        <span className="dim t1 prod">{job?.productId}</span>
        <span className="num cost">{job !== undefined && <Cost spent={job.spent} />}</span>
        <span className="num age">
          <Age at={need.at} />
        </span>
        <span className="act">
          {job !== undefined ? (
            <JobButton need={need} job={job} isOpen={isOpen} toggle={toggle} />
          ) : (
            <AlertLinks need={need} />
          )}
        </span>
      </div>
      {isOpen && job !== undefined && <Body id={job.id} />}
    </div>
  );
}

function JobButton({ need, job, isOpen, toggle }: { need: Need; job: JobView; isOpen: boolean; toggle: () => void }) {
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const { data } = useQuery({ ...jobQuery(job.id), enabled: dialog !== null });
  if (need.kind === "question")
    return (
      <Button small look={isOpen ? "plain" : "primary"} aria-expanded={isOpen} onClick={toggle}>
        {isOpen ? "Close" : "Answer"}
      </Button>
    );
  const verb = need.kind === "ship" ? "ship" : "requeue";
  return (
    <>
      <WriteButton small onClick={() => setDialog(verb)}>
        {verb === "ship" ? "Ship…" : "Requeue…"}
      </WriteButton>
      <Link className={buttonClass("quiet", true)} to="/jobs/$id" params={{ id: job.id }}>
        Open
      </Link>
      {dialog !== null && data !== undefined && (
        <JobDialog job={data} dialog={dialog} onClose={() => setDialog(null)} />
      )}
    </>
  );
}

function AlertLinks({ need }: { need: Need }) {
  const { jobId, factoryId, code } = need.alert ?? {};
  if (jobId != null)
    return (
      <Link className={buttonClass("plain", true)} to="/jobs/$id" params={{ id: jobId }} search={{ tab: "explain" }}>
        Show remedy
      </Link>
    );
  if (code === "credential_exhausted")
    return (
      <Link className={buttonClass("plain", true)} to="/admin/$tab" params={{ tab: "credentials" }}>
        Credentials
      </Link>
    );
  if (factoryId != null)
    return (
      <Link className={buttonClass("plain", true)} to="/factories/$id" params={{ id: factoryId }}>
        Open factory
      </Link>
    );
  return null;
}

function Body({ id }: { id: string }) {
  const { data: job } = useQuery(jobQuery(id));
  if (job === undefined) return <Skeleton />;
  return (
    <div className="ask-body">
      {job.question != null && <AnswerBox job={job} />}
      <Properties job={job} />
    </div>
  );
}
