import { PageHead } from "../../shell/Bar";
import { Alerts } from "./Alerts";
import { Factories } from "./Factories";
import { NeedsMini } from "./NeedsMini";
import { Pools } from "./Pools";
import { Recent } from "./Recent";
import { Totals } from "./Totals";

export function FleetPage() {
  return (
    <div className="page">
      <PageHead title="Fleet" />
      <div className="attention">
        <Alerts />
        <NeedsMini />
      </div>
      <Totals />
      <Pools />
      <Factories />
      <Recent />
    </div>
  );
}
