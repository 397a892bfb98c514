import { Link, useParams } from "@tanstack/react-router";
import { PageHead } from "../../shell/Bar";
import { Factories } from "../fleet/Factories";
import { Credentials } from "./Credentials";
import { Products } from "./Products";
import { Profiles } from "./Profiles";
import { Tokens } from "./Tokens";
import { Trackers } from "./Trackers";
import { Webhooks } from "./Webhooks";

const TABS = {
  products: "Products",
  profiles: "Profiles",
  tokens: "Tokens",
  credentials: "Credentials",
  factories: "Factories",
  trackers: "Trackers",
  webhooks: "Webhooks",
} as const;
type Tab = keyof typeof TABS;

export function AdminPage() {
  const { tab } = useParams({ from: "/shell/admin/$tab" });
  const current = (Object.keys(TABS) as Tab[]).find((one) => one === tab) ?? "products";
  return (
    <div className="page">
      <PageHead title="Admin" />
      <nav className="tabs" aria-label="Admin">
        {(Object.keys(TABS) as Tab[]).map((one) => (
          <Link
            key={one}
            to="/admin/$tab"
            params={{ tab: one }}
            aria-current={one === current ? "page" : undefined}
            activeProps={{}}
          >
            {TABS[one]}
          </Link>
        ))}
      </nav>
      {current === "products" && <Products />}
      {current === "profiles" && <Profiles />}
      {current === "tokens" && <Tokens />}
      {current === "credentials" && <Credentials />}
      {current === "factories" && <Factories />}
      {current === "trackers" && <Trackers />}
      {current === "webhooks" && <Webhooks />}
    </div>
  );
}
