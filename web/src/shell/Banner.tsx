import { clock, duration } from "../lib/format";
import { retryNow, useLive, useNow } from "../live";
import { Button } from "../ui/Button";
import { Glyph } from "../ui/Glyph";

/** Shown while the coordinator does not answer: the age of the data, the next attempt, "try now". */
export function Banner() {
  const state = useLive();
  if (state.phase !== "down") return null;
  return <DownBanner asOf={state.asOf} nextAttemptAt={state.nextAttemptAt} />;
}

function DownBanner({ asOf, nextAttemptAt }: { asOf: number | null; nextAttemptAt: number | null }) {
  const now = useNow(500);
  const wait = nextAttemptAt === null ? 0 : nextAttemptAt - now;
  return (
    <div className="banner" role="alert">
      <b>
        <Glyph name="failed" />
        The coordinator does not answer
      </b>
      <span>
        {asOf === null
          ? "No data has been received yet. Running jobs continue on their factories."
          : `The last answer came at ${clock(asOf)} UTC, ${duration(now - asOf)} ago. Running jobs continue on their factories.`}
      </span>
      <span className="right">
        <span aria-hidden="true">{wait > 500 ? `next attempt in ${Math.ceil(wait / 1000)} s` : "trying now"}</span>
        <Button small onClick={retryNow}>
          Try now
        </Button>
      </span>
    </div>
  );
}
