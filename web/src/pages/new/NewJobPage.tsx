import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { submitJob } from "../../api/actions";
import { idempotencyKey } from "../../api/client";
import { jobQuery } from "../../api/queries";
import { loadText, saveText } from "../../lib/storage";
import { PageHead } from "../../shell/Bar";
import { useProduct } from "../../shell/ProductSwitcher";
import { Button, WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Panel } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { say } from "../../ui/toasts";
import { Words } from "../../ui/Words";
import { Editor } from "./Editor";
import { Findings } from "./Findings";
import { insertKey, TEMPLATE } from "./frontMatter";
import { Inserts } from "./Inserts";
import { Placement } from "./Placement";
import { useDryRun } from "./useDryRun";

const DRAFT = "draft";

export function NewJobPage() {
  const { from } = useSearch({ from: "/shell/new" });
  const source = useQuery({ ...jobQuery(from ?? ""), enabled: from !== undefined });
  if (from !== undefined && source.data === undefined) {
    return (
      <div className="page">
        <PageHead title="New job" />
        {source.error !== null && (
          <div className="panel">
            <PanelError error={source.error} retry={() => void source.refetch()} />
          </div>
        )}
      </div>
    );
  }
  return <Form key={from ?? ""} initial={source.data?.bodyMd} />;
}

function Form({ initial }: { initial?: string }) {
  const product = useProduct();
  const navigate = useNavigate();
  const [text, setText] = useState(() => initial ?? loadText(DRAFT) ?? TEMPLATE);
  const [isAsking, setAsking] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const key = useRef(idempotencyKey());
  const area = useRef<HTMLTextAreaElement>(null);
  const dryRun = useDryRun(text, product);
  const errors = dryRun.findings.filter((finding) => finding.severity === "error").length;
  const isValid = dryRun.checked === text && dryRun.error === null;
  const forecast = dryRun.answer?.forecast;
  const isUnplaceable = forecast?.answer.outcome === "waits" && forecast.answer.unplaceable;

  useEffect(() => {
    const timer = setTimeout(() => saveText(DRAFT, text === TEMPLATE ? null : text), 500);
    return () => clearTimeout(timer);
  }, [text]);

  async function send() {
    setBusy(true);
    setError(null);
    try {
      const { job, created } = await submitJob(text, product, key.current);
      saveText(DRAFT, null);
      say(created ? "Submitted" : "Already submitted", job.title);
      await navigate({ to: "/jobs/$id", params: { id: job.id } });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  const submit = () => {
    if (!isValid || isBusy) return;
    if (isUnplaceable) setAsking(true);
    else void send();
  };
  const goTo = (line: number) => {
    const start =
      text
        .split("\n")
        .slice(0, line - 1)
        .join("\n").length + (line > 1 ? 1 : 0);
    area.current?.focus();
    area.current?.setSelectionRange(start, start + (text.split("\n")[line - 1]?.length ?? 0));
  };

  return (
    <div className="page">
      <PageHead title="New job" />
      <div className="new-grid">
        <Panel
          title="Manifest"
          sub={
            dryRun.isChecking || dryRun.checked !== text
              ? "checking"
              : errors > 0
                ? `${errors} ${errors === 1 ? "error" : "errors"}`
                : dryRun.error === null
                  ? "no errors"
                  : null
          }
          right={
            text !== TEMPLATE && (
              <Button small look="quiet" onClick={() => setText(TEMPLATE)}>
                Start over
              </Button>
            )
          }
          footer={
            <>
              <span className="small only-wide">The draft is kept in this browser</span>
              <span className="right">
                <WriteButton
                  look="primary"
                  disabled={!isValid}
                  busy={isBusy}
                  onClick={submit}
                  title={isValid ? "Ctrl Enter" : "Fix the errors first"}
                >
                  {isUnplaceable ? "Submit…" : "Submit"}
                </WriteButton>
              </span>
            </>
          }
        >
          <Editor
            text={text}
            findings={dryRun.checked === null ? [] : dryRun.findings}
            onChange={setText}
            onSubmit={submit}
            inputRef={area}
          />
          <Findings findings={dryRun.findings} error={dryRun.error} goTo={goTo} />
          {error !== null && <PanelError error={error} />}
        </Panel>
        <div className="stack">
          <Placement dryRun={dryRun} />
          <Inserts insert={(item) => setText(insertKey(text, item))} />
        </div>
      </div>
      {isAsking && forecast !== undefined && (
        <Confirm title="No factory can run this job" verb="Submit anyway" onClose={() => setAsking(false)} act={send}>
          <p>
            <Words text={forecast.text} />
          </p>
          <p>It stays queued until a factory that fits joins the fleet.</p>
        </Confirm>
      )}
    </div>
  );
}
