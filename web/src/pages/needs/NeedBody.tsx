import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { factoriesQuery, jobExplainQuery, jobQuery } from "../../api/queries";
import type { NeedItem } from "../../api/types";
import { factoryState } from "../../lib/factories";
import { capital, money, shortSha } from "../../lib/format";
import { Age } from "../../ui/Age";
import { Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { Words } from "../../ui/Words";
import { Heartbeat } from "../fleet/FactoryCard";
import { AnswerBox } from "../job/Answer";
import { Finished } from "../job/Finished";
import { FitTable } from "../job/FitTable";
import { Fact } from "../job/Properties";
import { ReviewBox } from "../job/Review";
import { NeedButton, NeedLink } from "./NeedActions";

/** An item opened in place: what a person needs to decide it, and the actions. */
export function NeedBody({ item }: { item: NeedItem }) {
  return (
    <div className="ask-body">
      <div className="stack">
        {item.jobId == null ? <Plain item={item} /> : <OfJob item={item} id={item.jobId} />}
        {item.kind !== "question" && item.kind !== "review" && (
          <div className="btns">
            {item.actions.map((action, index) => (
              <NeedButton
                key={action}
                item={item}
                action={action}
                small={false}
                look={index === 0 ? "primary" : action === "reject" || action === "cancel" ? "danger" : "plain"}
              />
            ))}
            <NeedLink item={item} />
          </div>
        )}
      </div>
      <Side item={item} />
    </div>
  );
}

function Plain({ item }: { item: NeedItem }) {
  return (
    <>
      <p className="measure">
        <Words text={capital(item.text)} />
      </p>
      <Remedy text={item.remedy} />
    </>
  );
}

function Remedy({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <p className="dim measure">
      <Words text={capital(text)} />
    </p>
  );
}

function OfJob({ item, id }: { item: NeedItem; id: string }) {
  const query = useQuery(jobQuery(id));
  if (query.data === undefined)
    return query.error === null ? <Skeleton /> : <PanelError error={query.error} retry={() => void query.refetch()} />;
  const job = query.data;
  switch (item.kind) {
    case "question":
      return <AnswerBox job={job} extra={<NeedLink item={item} />} />;
    case "unplaceable":
      return <Unplaceable item={item} id={id} />;
    case "ready_to_ship":
      return <Finished job={job} />;
    case "review":
      return (
        <>
          <Finished job={job} />
          {job.review != null && <ReviewBox job={job} review={job.review} extra={<NeedLink item={item} />} />}
        </>
      );
    default:
      return (
        <>
          {job.message != null && job.message !== "" ? (
            <pre className="out is-short">{job.message}</pre>
          ) : (
            <p className="measure">
              <Words text={capital(item.text)} />
            </p>
          )}
          <Remedy text={item.remedy} />
          {job.checkpoint != null && (
            <p className="dim">
              Checkpoint <span className="mono">{shortSha(job.checkpoint.sha)}</span> is kept: a requeued job continues
              from it unless you drop it.
            </p>
          )}
        </>
      );
  }
}

function Unplaceable({ item, id }: { item: NeedItem; id: string }) {
  const { data } = useQuery(jobExplainQuery(id));
  return (
    <>
      <Plain item={item} />
      {data !== undefined && (
        <div className="panel">
          <FitTable explanation={data.now} />
        </div>
      )}
    </>
  );
}

function Side({ item }: { item: NeedItem }) {
  return (
    <dl className="facts">
      {item.jobId != null && <JobFacts id={item.jobId} />}
      {item.factoryId != null && <FactoryFacts id={item.factoryId} />}
      <Fact name="Waits">
        <Age at={item.at} />
      </Fact>
      {item.costUsd != null && <Fact name="Cost so far">{money(item.costUsd)}</Fact>}
    </dl>
  );
}

function JobFacts({ id }: { id: string }) {
  const { data: job } = useQuery(jobQuery(id));
  if (job === undefined) return null;
  return (
    <>
      <Fact name="Job">
        <Link className="link" to="/jobs/$id" params={{ id }}>
          {job.title}
        </Link>
      </Fact>
      <Fact name="Product">{[job.productId, job.repo].filter(Boolean).join(" / ")}</Fact>
      {job.runs > 0 && <Fact name="Runs">{job.runs}</Fact>}
      {job.checkpoint != null && (
        <Fact name="Checkpoint">
          <span className="mono">{shortSha(job.checkpoint.sha)}</span>
        </Fact>
      )}
    </>
  );
}

function FactoryFacts({ id }: { id: string }) {
  const { data } = useQuery(factoriesQuery);
  const factory = data?.items.find((one) => one.id === id);
  return (
    <>
      <Fact name="Factory">
        <Link className="link" to="/factories/$id" params={{ id }}>
          {id}
        </Link>
      </Fact>
      {factory !== undefined && <Fact name="State">{factoryState(factory).word}</Fact>}
      {factory?.lastHeartbeatAt != null && (
        <Fact name="Presence">
          <Heartbeat factory={factory} />
        </Fact>
      )}
    </>
  );
}
