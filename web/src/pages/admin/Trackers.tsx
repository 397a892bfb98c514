import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { echoItem } from "../../api/actions";
import { trackersQuery } from "../../api/queries";
import { count, shortId } from "../../lib/format";
import { queries } from "../../live";
import { Age } from "../../ui/Age";
import { WriteButton } from "../../ui/Button";
import { QueryPanel } from "../../ui/Panel";
import { say, sayError } from "../../ui/toasts";

async function echo(jobId: string) {
  try {
    await echoItem(jobId);
    say("The status is sent again");
    await queries.invalidateQueries({ queryKey: ["trackers"] });
  } catch (error) {
    sayError("Not sent", error);
  }
}

export function Trackers() {
  const query = useQuery(trackersQuery);
  return (
    <QueryPanel
      title="Trackers"
      query={query}
      isEmpty={({ sources, items }) => sources.length === 0 && items.length === 0}
      empty={
        <div>
          <h2>No tracker is configured</h2>
          <p className="dim">
            Items of a tracker, such as labelled issues, become jobs. Configure it in the coordinator's giga.toml, as
            [tracker.github].
          </p>
        </div>
      }
    >
      {({ sources, items }) => (
        <>
          <table className="table is-rows is-fixed">
            <colgroup>
              <col className="cw-196" />
              <col />
              <col className="cw-120" />
              <col className="cw-88" />
            </colgroup>
            <thead>
              <tr>
                <th>Tracker</th>
                <th>Status of jobs</th>
                <th className="num">Deliveries</th>
                <th className="num">Last</th>
              </tr>
            </thead>
            <tbody>
              {sources.map((source) => (
                <tr key={source.name}>
                  <td className="first strong">{source.name}</td>
                  <td className={`full ${source.failures > 0 ? "is-warn" : "dim"}`}>
                    {source.failures > 0
                      ? `failing: ${source.error ?? "unknown"}`
                      : source.showsStatus
                        ? "shown at the items"
                        : "not shown"}
                  </td>
                  <td className="num">{count(source.deliveries)}</td>
                  <td className="num tr">{source.lastDeliveryAt == null ? "–" : <Age at={source.lastDeliveryAt} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {items.length > 0 && (
            <table className="table is-rows is-fixed">
              <colgroup>
                <col className="cw-196" />
                <col className="cw-88" />
                <col className="cw-120" />
                <col />
                <col className="cw-88" />
                <col className="cw-120" />
              </colgroup>
              <thead>
                <tr>
                  <th>Item</th>
                  <th>Job</th>
                  <th>Stage</th>
                  <th>Title</th>
                  <th className="num">Age</th>
                  <th />
                </tr>
              </thead>
              <tbody>
                {items.map((item) => (
                  <tr key={item.jobId}>
                    <td className="first mono" title={item.error ?? undefined}>
                      {item.item.key}
                    </td>
                    <td>
                      <Link to="/jobs/$id" params={{ id: item.jobId }}>
                        {shortId(item.jobId)}
                      </Link>
                    </td>
                    <td className="tr">{item.stage ?? "closed"}</td>
                    <td className="full">{item.title}</td>
                    <td className="num tr">
                      <Age at={item.createdAt} />
                    </td>
                    <td className="num">
                      <WriteButton small look="quiet" onClick={() => void echo(item.jobId)}>
                        Send again
                      </WriteButton>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </>
      )}
    </QueryPanel>
  );
}
