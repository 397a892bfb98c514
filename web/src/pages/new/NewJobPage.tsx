import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { submitJob } from "../../api/actions";
import { idempotencyKey } from "../../api/client";
import { jobQuery } from "../../api/queries";
import type { Finding } from "../../api/types";
import { loadText, saveText } from "../../lib/storage";
import { PageHead } from "../../shell/Bar";
import { useProduct } from "../../shell/ProductSwitcher";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Panel } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { say } from "../../ui/toasts";
import { Words } from "../../ui/Words";
import type { EditorHandle } from "./Editor";
import { Findings } from "./Findings";
import { insertKey, TEMPLATE, TEMPLATES } from "./frontMatter";
import { Inserts } from "./Inserts";
import { Placement } from "./Placement";
import { Start } from "./Start";
import { useDryRun } from "./useDryRun";
import { Verdict } from "./Verdict";

const Editor = lazy(() => import("./Editor").then((module) => ({ default: module.Editor })));
const DRAFT = "draft";
const NONE: Finding[] = [];

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
  const [tried, setTried] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const key = useRef(idempotencyKey());
  const editor = useRef<EditorHandle>(null);
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
  const isUntouched = TEMPLATES.some((template) => template.text === text);
  const firstError = dryRun.findings.find((finding) => finding.severity === "error");
  const block = isUntouched
    ? "Write the job first"
    : dryRun.checked !== text
      ? "Checking the text"
      : isValid
        ? null
        : firstError === undefined
          ? "Not accepted: see the error above"
          : `Fix line ${firstError.line} first`;
  const submit = () => {
    setTried(block !== null);
    if (block !== null && dryRun.checked === text && firstError !== undefined) editor.current?.goTo(firstError.line);
    if (block !== null || isBusy) return;
    if (isUnplaceable) setAsking(true);
    else void send();
  };
  const warnings = dryRun.findings.length - errors;

  return (
    <div className="page">
      <PageHead title="New job" />
      <div className="new-grid">
        <Panel
          title="Manifest"
          sub="draft, kept in this browser"
          right={<Start choose={setText} />}
          footer={
            <>
              <Verdict dryRun={dryRun} isCurrent={dryRun.checked === text} errors={errors} warnings={warnings} />
              <span className="right submit">
                {block !== null && (
                  <span className={`small ${tried ? "is-warn" : "dim"}`} role="status">
                    {tried ? `Not submitted. ${block}` : block}
                  </span>
                )}
                <WriteButton
                  look="primary"
                  disabled={block !== null}
                  busy={isBusy}
                  onClick={submit}
                  title={block ?? "Ctrl Enter"}
                >
                  {isUnplaceable ? "Submit…" : "Submit"} <kbd className="kbd">Ctrl ↵</kbd>
                </WriteButton>
              </span>
            </>
          }
        >
          <Suspense fallback={<div className="cm-host" />}>
            <Editor
              text={text}
              findings={dryRun.checked === null ? NONE : dryRun.findings}
              onChange={setText}
              onSubmit={submit}
              ref={editor}
            />
          </Suspense>
          <Findings findings={dryRun.findings} error={dryRun.error} goTo={(line) => editor.current?.goTo(line)} />
          {error !== null && <PanelError error={error} />}
        </Panel>
        <div className="stack">
          <Placement dryRun={dryRun} />
          <Inserts
            text={text}
            product={dryRun.answer?.job.productId ?? product}
            insert={(item) => setText(insertKey(text, item))}
          />
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
