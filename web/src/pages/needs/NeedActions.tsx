import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { drainFactory, removeFactory, resumeCredential } from "../../api/actions";
import { jobQuery } from "../../api/queries";
import type { NeedAction, NeedItem } from "../../api/types";
import { queries } from "../../live";
import { buttonClass, WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { type Dialog, JobDialog } from "../job/JobDialog";
import { VERBS } from "./look";

const DIALOGS: Partial<Record<NeedAction, Dialog>> = {
  requeue: "requeue",
  redrive: "requeue",
  ship: "ship",
  cancel: "cancel",
  dismiss: "dismiss",
  reject: "reject",
  request_changes: "changes",
};

type Props = { item: NeedItem; action: NeedAction; look?: "plain" | "primary" | "quiet" | "danger"; small?: boolean };

/** One action of an item: its button and what it asks before it happens. */
export function NeedButton({ item, action, look = "plain", small = true }: Props) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <WriteButton small={small} look={look} onClick={() => setOpen(true)}>
        {VERBS[action]}
      </WriteButton>
      {isOpen && <Asked item={item} action={action} onClose={close} />}
    </>
  );
}

export function Asked({ item, action, onClose }: { item: NeedItem; action: NeedAction; onClose: () => void }) {
  const dialog = DIALOGS[action];
  if (dialog !== undefined && item.jobId != null) return <JobAsked id={item.jobId} dialog={dialog} onClose={onClose} />;
  if (action === "drain" && item.factoryId != null) {
    const id = item.factoryId;
    return (
      <Confirm
        title={`Drain ${id}?`}
        verb="Drain"
        onClose={onClose}
        act={() => drainFactory(id, true).then(() => refresh())}
      >
        <p>It finishes its running jobs and takes no new ones.</p>
      </Confirm>
    );
  }
  if (action === "prune" && item.factoryId != null) {
    const id = item.factoryId;
    return (
      <Confirm
        title={`Remove ${id}?`}
        verb="Remove"
        danger
        typed={id}
        onClose={onClose}
        act={() => removeFactory(id).then(() => refresh())}
      >
        <p>Its token is revoked. To use the machine again, enrol it with a new join token.</p>
      </Confirm>
    );
  }
  if (action === "resume_credential" && item.credential != null) {
    const { credential } = item;
    return (
      <Confirm
        title="Resume this credential?"
        verb="Resume"
        onClose={onClose}
        act={() => resumeCredential(credential).then(() => refresh())}
      >
        <p>Its engines get work again at once. If the limit still holds, the credential is limited again.</p>
      </Confirm>
    );
  }
  return null;
}

function JobAsked({ id, dialog, onClose }: { id: string; dialog: Dialog; onClose: () => void }) {
  const { data } = useQuery(jobQuery(id));
  return data === undefined ? null : <JobDialog job={data} dialog={dialog} onClose={onClose} />;
}

function refresh() {
  return Promise.all(
    ["needs", "factories", "credentials", "alerts"].map((key) => queries.invalidateQueries({ queryKey: [key] })),
  );
}

/** Where the rest of the story is. */
export function NeedLink({ item, look = "quiet" }: { item: NeedItem; look?: "quiet" | "plain" }) {
  const className = buttonClass(look, true);
  if (item.jobId != null)
    return (
      <Link className={className} to="/jobs/$id" params={{ id: item.jobId }}>
        Open job
      </Link>
    );
  if (item.factoryId != null)
    return (
      <Link className={className} to="/factories/$id" params={{ id: item.factoryId }}>
        Open factory
      </Link>
    );
  if (item.productId != null && item.kind === "budget")
    return (
      <Link className={className} to="/budgets/$id" params={{ id: item.productId }}>
        Budget
      </Link>
    );
  if (item.kind === "credential_exhausted")
    return (
      <Link className={className} to="/admin/$tab" params={{ tab: "credentials" }}>
        Credentials
      </Link>
    );
  return null;
}
