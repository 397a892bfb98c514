import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { resumeCredential } from "../../api/actions";
import { credentialsQuery } from "../../api/queries";
import type { CredentialView } from "../../api/types";
import { clockShort } from "../../lib/format";
import { queries } from "../../live";
import { Age } from "../../ui/Age";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { QueryPanel } from "../../ui/Panel";

export function Credentials() {
  const query = useQuery(credentialsQuery);
  const [asked, setAsked] = useState<CredentialView | null>(null);
  return (
    <QueryPanel
      title="Limited credentials"
      query={query}
      sub={({ items }) => (items.length === 0 ? null : String(items.length))}
      isEmpty={({ items }) => items.length === 0}
      empty={
        <div>
          <h2>No credential is limited</h2>
          <p className="dim">
            A credential whose usage window or credit is exhausted appears here until it is available again.
          </p>
        </div>
      }
    >
      {({ items }) => (
        <>
          <table className="table is-rows is-fixed">
            <colgroup>
              <col className="cw-120" />
              <col className="cw-196" />
              <col />
              <col className="cw-184" />
              <col className="cw-88" />
              <col className="cw-104" />
            </colgroup>
            <thead>
              <tr>
                <th>Engine</th>
                <th>Credential</th>
                <th>State</th>
                <th>Factories</th>
                <th className="num">Since</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {items.map((item) => (
                <tr key={item.credential}>
                  <td className="first strong">{item.engine}</td>
                  <td className="mono" title={item.credential}>
                    {item.credential}
                  </td>
                  <td className="is-warn full" title={item.message ?? undefined}>
                    {item.exhausted === true
                      ? "no credit left"
                      : item.until == null
                        ? "usage limit reached"
                        : `window ${item.window ?? ""} opens ${clockShort(item.until)}`}
                    {item.message != null && `: ${item.message}`}
                  </td>
                  <td className="dim">{item.factories.join(", ")}</td>
                  <td className="num tr">
                    <Age at={item.since} />
                  </td>
                  <td className="num">
                    <WriteButton small onClick={() => setAsked(item)}>
                      Resume…
                    </WriteButton>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {asked !== null && (
            <Confirm
              title={`Resume ${asked.engine}?`}
              verb="Resume"
              onClose={() => setAsked(null)}
              act={() =>
                resumeCredential(asked.credential).then(() => queries.invalidateQueries({ queryKey: ["credentials"] }))
              }
            >
              <p>
                Its engines get work again at once. If the limit still holds, the next run ends without counting as an
                attempt and the credential is limited again.
              </p>
            </Confirm>
          )}
        </>
      )}
    </QueryPanel>
  );
}
