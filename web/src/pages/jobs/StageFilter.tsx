import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { countsQuery } from "../../api/queries";
import { STAGES, type StageName } from "../../api/types";
import { count } from "../../lib/format";
import { STAGE } from "../../lib/stages";
import { useKeys } from "../../shell/keys";
import { useProduct } from "../../shell/ProductSwitcher";
import { Glyph } from "../../ui/Glyph";
import { type JobsSearch, parseStages } from "./search";

/** Stages with their counts; each is a filter, with the keys 1 to 9. The counts are of the product, not of other filters. */
export function StageFilter({ search }: { search: JobsSearch }) {
  const { data } = useQuery(countsQuery(useProduct()));
  const navigate = useNavigate();
  const counts = data?.stages;
  const chosen = parseStages(search.stage);
  const all = counts === undefined ? null : Object.values(counts).reduce((sum, value) => sum + value, 0);
  const toggled = (stage: StageName) => {
    const next = chosen.includes(stage) ? chosen.filter((one) => one !== stage) : [...chosen, stage];
    return next.length === 0 ? undefined : STAGES.filter((one) => next.includes(one)).join(",");
  };
  useKeys(
    STAGES.map((stage, index) => ({
      keys: String(index + 1),
      label: `Stage ${STAGE[stage].word}`,
      group: "Stages",
      run: () => void navigate({ to: "/jobs", search: (old) => ({ ...old, stage: toggled(stage) }) }),
    })),
  );
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
      {STAGES.map((stage, index) => (
        <Link
          key={stage}
          to="/jobs"
          search={(old) => ({ ...old, stage: toggled(stage) })}
          aria-current={chosen.includes(stage) ? "true" : undefined}
          activeProps={{}}
          title={`${STAGE[stage].hint} (${index + 1})`}
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
