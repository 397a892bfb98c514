import { asApiError, isOutage } from "../api/problem";
import { usePhase } from "../live";
import { Button } from "./Button";
import { Copy } from "./Copy";
import { Glyph } from "./Glyph";
import { Words } from "./Words";

export function PanelError({ error, retry }: { error: unknown; retry?: () => void }) {
  const { sentence, remedy, code, requestId } = asApiError(error);
  const isDown = usePhase() === "down";
  // The banner says so already. Without `retry` it is an action that failed.
  if (isDown && isOutage(error) && retry !== undefined)
    return <p className="panel-b dim">Cannot be read now. It is read again as soon as the coordinator answers.</p>;
  return (
    <div className="panel-err" role="alert">
      <span className="st st-failed is-wrap">
        <Glyph name="failed" />
        <span>
          <Words text={sentence} />
        </span>
      </span>
      {remedy !== "" && <span className="small">{<Words text={remedy} />}</span>}
      <span className="dim small">
        code <span className="mono">{code}</span>
        {requestId !== null && (
          <>
            {" · "}request <span className="mono">{requestId}</span> <Copy text={requestId} label="Copy request id" />
          </>
        )}
      </span>
      {retry !== undefined && (
        <span className="push">
          <Button small onClick={retry}>
            Retry
          </Button>
        </span>
      )}
    </div>
  );
}
