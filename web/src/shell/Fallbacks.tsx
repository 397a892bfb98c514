import { Link } from "@tanstack/react-router";
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
  const isOld = /dynamically imported|chunk|module script/i.test(message);
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
