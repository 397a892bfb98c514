import { type ReactNode, useId, useState } from "react";
import { answerJob } from "../../api/actions";
import type { JobView } from "../../api/types";
import { shortSha } from "../../lib/format";
import { queries } from "../../live";
import { upsertJobs } from "../../live/jobs";
import { useKeys } from "../../shell/keys";
import { WriteButton } from "../../ui/Button";
import { PanelError } from "../../ui/PanelError";
import { say } from "../../ui/toasts";
import { Words } from "../../ui/Words";
import { Card } from "./Attention";

/** The agent's question and a box for the answer. */
export function Answer({ job }: { job: JobView }) {
  return (
    <Card look="is-ask" glyph="ask" head="The agent asks">
      <AnswerBox job={job} />
    </Card>
  );
}

export function AnswerBox({ job, extra }: { job: JobView; extra?: ReactNode }) {
  const id = useId();
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function send(text: string) {
    setBusy(true);
    setError(null);
    try {
      upsertJobs([await answerJob(job, text)]);
      say("Answer sent, job queued", job.title);
      await queries.invalidateQueries({ queryKey: ["job", job.id] });
      await queries.invalidateQueries({ queryKey: ["needs"] });
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  }
  useKeys([{ keys: "a", label: "Answer", group: "Job", run: () => document.getElementById(id)?.focus() }]);

  return (
    <div className="stack gap-3">
      <blockquote className="quote">
        {paragraphs(job.question ?? "").map((text, index) => (
          <p key={index} className="pre-line">
            <Words text={text} />
          </p>
        ))}
      </blockquote>
      {error !== null && <PanelError error={error} />}
      <div className="field">
        <label htmlFor={id}>Answer</label>
        <textarea
          id={id}
          className="textarea"
          rows={3}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && text.trim() !== "") void send(text.trim());
          }}
        />
        <span className="hint">
          The agent reads this as written
          {job.checkpoint != null && (
            <>
              , and continues from checkpoint <span className="mono">{shortSha(job.checkpoint.sha)}</span>
            </>
          )}
        </span>
      </div>
      <div className="btns">
        <WriteButton
          look="primary"
          disabled={text.trim() === ""}
          busy={isBusy}
          onClick={() => void send(text.trim())}
          title="Ctrl Enter"
        >
          Answer and resume
        </WriteButton>
        <WriteButton busy={isBusy} onClick={() => void send("")}>
          Let the agent decide
        </WriteButton>
        {extra}
      </div>
    </div>
  );
}

function paragraphs(text: string): string[] {
  return text.trim().split(/\n\s*\n/);
}
