import { useState } from "react";
import Markdown from "react-markdown";
import rehypeSanitize from "rehype-sanitize";
import remarkGfm from "remark-gfm";
import type { JobDetail } from "../../api/types";
import { Copy } from "../../ui/Copy";
import { Panel } from "../../ui/Panel";

/** The text behind the front matter. */
export function prose(manifest: string): string {
  return manifest.replace(/^---\r?\n[\s\S]*?\r?\n---[ \t]*(\r?\n|$)/, "");
}

export function Manifest({ job }: { job: JobDetail }) {
  return (
    <div className="stack">
      <Text job={job} />
      {job.persona != null && (
        <Panel title="Persona" sub={`in front of the prompt, from ${job.profile?.ref}`}>
          <pre className="out is-page">{job.persona}</pre>
        </Panel>
      )}
    </div>
  );
}

/** Rendered without HTML and without images from elsewhere, or verbatim. */
function Text({ job }: { job: JobDetail }) {
  const [isVerbatim, setVerbatim] = useState(false);
  return (
    <Panel
      title="Manifest"
      sub="as submitted"
      right={
        <>
          <Copy text={job.bodyMd} label="Copy manifest" />
          <span className="seg" role="group" aria-label="Form">
            <button type="button" aria-pressed={!isVerbatim} onClick={() => setVerbatim(false)}>
              Rendered
            </button>
            <button type="button" aria-pressed={isVerbatim} onClick={() => setVerbatim(true)}>
              Verbatim
            </button>
          </span>
        </>
      }
    >
      {isVerbatim ? (
        <pre className="out is-page">{job.bodyMd}</pre>
      ) : (
        <div className="panel-b">
          <pre className="out">{job.bodyMd.slice(0, job.bodyMd.length - prose(job.bodyMd).length).trim()}</pre>
          <div className="prose measure">
            <Markdown
              remarkPlugins={[remarkGfm]}
              rehypePlugins={[rehypeSanitize]}
              disallowedElements={["img"]}
              unwrapDisallowed
            >
              {prose(job.bodyMd)}
            </Markdown>
          </div>
        </div>
      )}
    </Panel>
  );
}
