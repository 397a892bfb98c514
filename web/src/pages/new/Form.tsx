import { useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useEffect, useRef, useState } from "react";
import { idempotencyKey } from "../../api/client";
import type { Finding } from "../../api/types";
import { loadText, saveText } from "../../lib/storage";
import { useProduct } from "../../shell/ProductSwitcher";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Panel } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { say } from "../../ui/toasts";
import { Words } from "../../ui/Words";
import type { EditorHandle } from "./Editor";
import { Findings } from "./Findings";
import { insertKey, type Template } from "./frontMatter";
import { Inserts } from "./Inserts";
import { Start } from "./Start";
import { type Check, type DryRun, useDryRun } from "./useDryRun";
import { Verdict } from "./Verdict";

const Editor = lazy(() => import("./Editor").then((module) => ({ default: module.Editor })));
const NONE: Finding[] = [];

/** What the form submits: a job, or a plan. */
export type Subject<A> = {
  title: string;
  /** Where the draft is kept in this browser. */
  draft: string;
  /** The first text. */
  first: string;
  templates: readonly Template[];
  /** Whether recent jobs can be copied. */
  hasJobs: boolean;
  check: Check<A>;
  send: (
    text: string,
    product: string | undefined,
    key: string,
  ) => Promise<{ id: string; title: string; created: boolean }>;
  /** Why a confirmation comes first: no factory can run it. */
  unplaceable: (answer: A) => { title: string; text: string } | null;
  productOf: (answer: A) => string | undefined;
};

type Props<A> = {
  subject: Subject<A>;
  initial?: string;
  aside: (dryRun: DryRun<A>, goTo: (line: number) => void) => ReactNode;
};

/** A text with findings at their lines, and what it would become. */
export function Form<A extends { warnings?: Finding[] }>({ subject, initial, aside }: Props<A>) {
  const product = useProduct();
  const navigate = useNavigate();
  const [text, setText] = useState(() => initial ?? loadText(subject.draft) ?? subject.first);
  const [isAsking, setAsking] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [tried, setTried] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const key = useRef(idempotencyKey());
  const editor = useRef<EditorHandle>(null);
  const dryRun = useDryRun(subject.check, text, product);
  const errors = dryRun.findings.filter((finding) => finding.severity === "error").length;
  const isValid = dryRun.checked === text && dryRun.error === null;
  const unplaceable = dryRun.answer === null ? null : subject.unplaceable(dryRun.answer);
  const goTo = (line: number) => editor.current?.goTo(line);

  useEffect(() => {
    const timer = setTimeout(() => saveText(subject.draft, text === subject.first ? null : text), 500);
    return () => clearTimeout(timer);
  }, [subject, text]);

  async function send() {
    setBusy(true);
    setError(null);
    try {
      const { id, title, created } = await subject.send(text, product, key.current);
      saveText(subject.draft, null);
      say(created ? "Submitted" : "Already submitted", title);
      await navigate({ to: "/jobs/$id", params: { id } });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  const isUntouched = subject.templates.some((template) => template.text === text);
  const firstError = dryRun.findings.find((finding) => finding.severity === "error");
  const block = isUntouched
    ? `Write the ${subject.title === "Plan" ? "plan" : "job"} first`
    : dryRun.checked !== text
      ? "Checking the text"
      : isValid
        ? null
        : firstError === undefined
          ? "Not accepted: see the error above"
          : `Fix line ${firstError.line} first`;
  const submit = () => {
    setTried(block !== null);
    if (block !== null && dryRun.checked === text && firstError !== undefined) goTo(firstError.line);
    if (block !== null || isBusy) return;
    if (unplaceable !== null) setAsking(true);
    else void send();
  };
  const warnings = dryRun.findings.length - errors;

  return (
    <>
      <div className="new-grid">
        <Panel
          title={subject.title}
          sub="draft, kept in this browser"
          right={<Start templates={subject.templates} hasJobs={subject.hasJobs} choose={setText} />}
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
                  {unplaceable !== null ? "Submit…" : "Submit"} <kbd className="kbd">Ctrl ↵</kbd>
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
          <Findings findings={dryRun.findings} error={dryRun.error} goTo={goTo} />
          {error !== null && <PanelError error={error} />}
        </Panel>
        <div className="stack">
          {aside(dryRun, goTo)}
          <Inserts
            text={text}
            product={(dryRun.answer === null ? undefined : subject.productOf(dryRun.answer)) ?? product}
            insert={(item) => setText(insertKey(text, item))}
          />
        </div>
      </div>
      {isAsking && unplaceable !== null && (
        <Confirm title={unplaceable.title} verb="Submit anyway" onClose={() => setAsking(false)} act={send}>
          <p>
            <Words text={unplaceable.text} />
          </p>
          <p>It stays queued until a factory that fits joins the fleet.</p>
        </Confirm>
      )}
    </>
  );
}
