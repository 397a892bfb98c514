import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { usePhase } from "../live";
import { Button, buttonClass } from "../ui/Button";
import { Words } from "../ui/Words";

export function NotFound() {
  return (
    <div className="page">
      <div className="empty panel">
        <div>
          <h2>Not here</h2>
          <p className="dim">No page has this address.</p>
        </div>
        <Link to="/" className={buttonClass()}>
          Fleet
        </Link>
      </div>
    </div>
  );
}

/** After an upgrade an old tab asks for a file that is gone. */
export function PageFailed({ error }: { error: unknown }) {
  const message = error instanceof Error ? error.message : String(error);
  const phase = usePhase();
  const isMissing = /dynamically imported|chunk|module script/i.test(message);
  const isOld = isMissing && phase === "live";
  const wasDown = useRef(isMissing && !isOld);
  useEffect(() => {
    if (wasDown.current && phase === "live") location.reload();
  }, [phase]);
  if (isMissing && !isOld) {
    return (
      <div className="page">
        <div className="empty panel">
          <div>
            <h2>This page is not loaded yet</h2>
            <p className="dim">
              The coordinator does not answer. Pages that were open before still show their last data.
            </p>
          </div>
          <Button onClick={() => history.back()}>Back</Button>
        </div>
      </div>
    );
  }
  return (
    <div className="page">
      <div className="empty panel">
        <div>
          <h2>{isOld ? "A new version is available" : "This page failed"}</h2>
          <p className="dim">
            {isOld ? "The coordinator was upgraded while this tab was open." : <Words text={message} />}
          </p>
        </div>
        <Button onClick={() => location.reload()}>Reload</Button>
      </div>
    </div>
  );
}
