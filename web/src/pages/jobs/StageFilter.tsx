import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { metricsQuery } from "../../api/queries";
import { STAGES, type StageName } from "../../api/types";
import { count } from "../../lib/format";
import { STAGE } from "../../lib/stages";
import { useProduct } from "../../shell/ProductSwitcher";
import { Glyph } from "../../ui/Glyph";
import { type JobsSearch, parseStages } from "./search";

/** Stages with their counts; each is a filter. The counts are of the whole fleet, so a product hides them. */
export function StageFilter({ search }: { search: JobsSearch }) {
  const { data } = useQuery(metricsQuery);
  const product = useProduct();
  const counts =
    product === undefined && search.repo === undefined && search.priority === undefined ? data?.jobs : undefined;
  const chosen = parseStages(search.stage);
  const all = counts === undefined ? null : Object.values(counts).reduce((sum, value) => sum + value, 0);
  const toggled = (stage: StageName) => {
    const next = chosen.includes(stage) ? chosen.filter((one) => one !== stage) : [...chosen, stage];
    return next.length === 0 ? undefined : STAGES.filter((one) => next.includes(one)).join(",");
  };
  return (
    <div className="stages" role="group" aria-label="Stages">
      <Link
        to="/jobs"
        search={(old) => ({ ...old, stage: undefined })}
        activeOptions={{ explicitUndefined: true }}
        aria-current={chosen.length === 0 ? "true" : undefined}
        activeProps={{}}
      >
        All {all !== null && <b>{count(all)}</b>}
      </Link>
      {STAGES.map((stage) => (
        <Link
          key={stage}
          to="/jobs"
          search={(old) => ({ ...old, stage: toggled(stage) })}
          aria-current={chosen.includes(stage) ? "true" : undefined}
          activeProps={{}}
          title={STAGE[stage].hint}
        >
          <span className={`st ${STAGE[stage].className}`}>
            <Glyph name={STAGE[stage].glyph} />
            {STAGE[stage].word}
          </span>
          {counts !== undefined && <b>{count(counts[stage] ?? 0)}</b>}
        </Link>
      ))}
    </div>
  );
}
