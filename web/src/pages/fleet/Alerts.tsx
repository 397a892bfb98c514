import { useQuery } from "@tanstack/react-query";
import { alertsQuery } from "../../api/queries";
import { isFleetAlert, sortAlerts } from "../../lib/alerts";
import { QueryPanel } from "../../ui/Panel";
import { AlertRow } from "./AlertRow";

export function Alerts() {
  const query = useQuery(alertsQuery);
  return (
    <QueryPanel
      title="Alerts"
      query={query}
      sub={({ items }) => `${items.filter(isFleetAlert).length}, worst first`}
      isEmpty={({ items }) => !items.some(isFleetAlert)}
      empty={
        <div>
          <h2>No alerts</h2>
          <p className="dim">Factories, credentials and merges are in order.</p>
        </div>
      }
    >
      {({ items }) => (
        <ul className="alerts">
          {sortAlerts(items.filter(isFleetAlert)).map((alert) => (
            <AlertRow key={`${alert.code}:${alert.jobId ?? alert.factoryId ?? alert.message}`} alert={alert} />
          ))}
        </ul>
      )}
    </QueryPanel>
  );
}
