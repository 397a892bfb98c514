import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { testWebhook } from "../../api/actions";
import { webhooksQuery } from "../../api/queries";
import { count } from "../../lib/format";
import { queries } from "../../live";
import { Age } from "../../ui/Age";
import { WriteButton } from "../../ui/Button";
import { QueryPanel } from "../../ui/Panel";
import { say, sayError } from "../../ui/toasts";

export function Webhooks() {
  const query = useQuery(webhooksQuery);
  const [tested, setTested] = useState<string | null>(null);

  async function test(name: string) {
    setTested(name);
    try {
      const { delivered, error } = await testWebhook(name);
      if (delivered) say(`${name} took the test delivery`);
      else sayError(`${name} was not delivered`, new Error(error ?? "unknown"));
      await queries.invalidateQueries({ queryKey: ["webhooks"] });
    } catch (error) {
      sayError("Not tested", error);
    } finally {
      setTested(null);
    }
  }

  return (
    <QueryPanel
      title="Outgoing webhooks"
      query={query}
      sub={({ items }) => (items.length === 0 ? null : String(items.length))}
      isEmpty={({ items }) => items.length === 0}
      empty={
        <div>
          <h2>No webhook is configured</h2>
          <p className="dim">
            The coordinator tells chats and programs about jobs and alerts. Configure them in its giga.toml, as
            [webhooks.NAME].
          </p>
        </div>
      }
    >
      {({ items }) => (
        <table className="table is-rows is-fixed">
          <colgroup>
            <col className="cw-120" />
            <col className="cw-196" />
            <col className="cw-184" />
            <col />
            <col className="cw-88" />
            <col className="cw-104" />
          </colgroup>
          <thead>
            <tr>
              <th>Webhook</th>
              <th>To</th>
              <th>Events</th>
              <th>State</th>
              <th className="num">Last</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {items.map((item) => (
              <tr key={item.name}>
                <td className="first strong">{item.name}</td>
                <td className="mono" title={item.address}>
                  {item.address}
                </td>
                <td className="dim full">
                  {item.events.join(", ")}
                  {item.products.length > 0 && ` of ${item.products.join(", ")}`}
                </td>
                <td className={`full ${item.failures > 0 ? "is-warn" : "dim"}`}>
                  {item.failures > 0
                    ? `failing: ${item.error ?? "unknown"}`
                    : `${count(item.delivered)} delivered${item.dropped > 0 ? `, ${count(item.dropped)} dropped` : ""}`}
                </td>
                <td className="num tr">{item.lastDeliveryAt == null ? "–" : <Age at={item.lastDeliveryAt} />}</td>
                <td className="num">
                  <WriteButton small disabled={tested !== null} onClick={() => void test(item.name)}>
                    Test
                  </WriteButton>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </QueryPanel>
  );
}
