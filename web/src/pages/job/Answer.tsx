import { useId, useState } from "react";
import { actOnJob } from "../../api/actions";
import type { JobView } from "../../api/types";
import { queries } from "../../live";
import { upsertJobs } from "../../live/jobs";
import { useKeys } from "../../shell/keys";
import { WriteButton } from "../../ui/Button";
import { PanelError } from "../../ui/PanelError";
import { say } from "../../ui/toasts";
import { Card } from "./Attention";

/** The agent's question and a box for the answer. */
export function Answer({ job }: { job: JobView }) {
  return (
    <Card look="is-ask" glyph="ask" head="The agent asks">
      <AnswerBox job={job} />
    </Card>
  );
}

export function AnswerBox({ job }: { job: JobView }) {
  const id = useId();
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function send(message: string) {
    setBusy(true);
    setError(null);
    try {
      upsertJobs([await actOnJob(job, "requeue", { message, fresh: false })]);
      say("Answer sent, job queued", job.title);
      await queries.invalidateQueries({ queryKey: ["job", job.id] });
      await queries.invalidateQueries({ queryKey: ["jobs"] });
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  }
  useKeys([{ keys: "a", label: "Answer", group: "Job", run: () => document.getElementById(id)?.focus() }]);

  return (
    <div className="stack gap-3">
      <blockquote className="quote pre-line">{job.question}</blockquote>
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
        <span className="hint">The job is queued and continues from its checkpoint with your answer</span>
      </div>
      <div className="btns">
        <WriteButton
          look="primary"
          disabled={text.trim() === ""}
          busy={isBusy}
          onClick={() => void send(text.trim())}
          title="Ctrl Enter"
        >
          Answer
        </WriteButton>
        <WriteButton busy={isBusy} onClick={() => void send("")}>
          Let the agent decide
        </WriteButton>
      </div>
    </div>
  );
}
