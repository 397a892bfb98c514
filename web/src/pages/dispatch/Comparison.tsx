import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { divergenceQuery } from "../../api/queries";
import type { Divergence, DivergenceReport, ProductDivergence } from "../../api/types";
import { count, plural, shortId, took } from "../../lib/format";
import { Age } from "../../ui/Age";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { Words } from "../../ui/Words";

/** Divergences that are listed; the command line lists all. */
const SHOWN_MAX = 20;

/** How push mode compares with polling, while a product is compared or was in the last week. */
export function Comparison() {
  const query = useQuery(divergenceQuery);
  if (query.data?.products.length === 0) return null;
  return (
    <QueryPanel
      title="Push compared with polling"
      query={query}
      sub={({ summary }) => <Verdict safe={summary.verdict.safe} text={summary.verdict.text} />}
      footer={(report) => <Footer report={report} />}
    >
      {(report) => (
        <>
          <Products products={report.products} />
          <Divergences divergences={report.divergences.slice(0, SHOWN_MAX)} />
        </>
      )}
    </QueryPanel>
  );
}

function Verdict({ safe, text }: { safe: boolean; text: string }) {
  return (
    <span className={`st ${safe ? "st-shipped" : "is-warn"}`}>
      <Glyph name={safe ? "shipped" : "queued"} />
      {text}
    </span>
  );
}

function Footer({ report }: { report: DivergenceReport }) {
  const hidden = report.divergences.length - SHOWN_MAX;
  return (
    <span>
      {hidden > 0 ? `${plural(hidden, "more divergence")}. ` : ""}
      The last 168 hours. In a terminal: <code>giga divergence</code>
    </span>
  );
}

function Products({ products }: { products: ProductDivergence[] }) {
  return (
    <table className="table is-fixed is-rows">
      <colgroup>
        <col className="cw-120" />
        <col className="cw-120" />
        <col className="cw-72" />
        <col className="cw-120" />
        <col className="cw-72" />
        <col className="cw-72" />
        <col className="cw-72" />
        <col className="cw-72" />
        <col />
      </colgroup>
      <thead>
        <tr>
          <th>Product</th>
          <th>Mode</th>
          <th className="num" title="Hours with decisions">
            Hours
          </th>
          <th className="num">Decisions</th>
          <th className="num" title="Claimed by the factory that push mode would choose">
            Same
          </th>
          <th className="num" title="Claimed by another eligible factory">
            Other
          </th>
          <th className="num" title="Divergent decisions and missing messages">
            Bad
          </th>
          <th className="num" title="99 % of the shadow messages arrived within this time">
            Lag
          </th>
          <th>Verdict</th>
        </tr>
      </thead>
      <tbody>
        {products.map(({ productId, mode, compared, summary }) => {
          const bad = summary.divergent + summary.counts.missing;
          return (
            <tr key={productId}>
              <td className="first strong">{productId}</td>
              <td className="dim">{compared ? mode : `${mode} (ended)`}</td>
              <td className="num" data-l="Hours">
                {summary.hours}
              </td>
              <td className="num" data-l="Decisions">
                {count(summary.decisions)}
              </td>
              <td className="num" data-l="Same">
                {count(summary.counts.same)}
              </td>
              <td className="num" data-l="Other">
                {count(summary.counts.otherEligible)}
              </td>
              <td className={bad > 0 ? "num is-bad" : "num"} data-l="Bad">
                {count(bad)}
              </td>
              <td className="num" data-l="Lag">
                {summary.lag == null ? "–" : took(summary.lag.p99Ms)}
              </td>
              <td className="full" title={summary.verdict.text}>
                <Verdict safe={summary.verdict.safe} text={summary.verdict.text} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Divergences({ divergences }: { divergences: Divergence[] }) {
  if (divergences.length === 0) return null;
  return (
    <table className="table is-fixed is-rows">
      <colgroup>
        <col className="cw-72" />
        <col className="cw-120" />
        <col className="cw-120" />
        <col />
        <col />
      </colgroup>
      <thead>
        <tr>
          <th className="num">Age</th>
          <th>Kind</th>
          <th>Job</th>
          <th>By polling</th>
          <th>By push</th>
        </tr>
      </thead>
      <tbody>
        {divergences.map((one) => (
          <tr key={`${one.jobId} ${one.at} ${one.kind}`}>
            <td className="num tr">
              <Age at={one.at} />
            </td>
            <td className="first">{one.kind}</td>
            <td>
              <Link className="mono" to="/jobs/$id" params={{ id: one.jobId }}>
                {shortId(one.jobId)}
              </Link>
            </td>
            <td className="full" title={one.poll}>
              <Words text={one.poll} />
            </td>
            <td className="full" title={one.push}>
              <Words text={one.push} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
