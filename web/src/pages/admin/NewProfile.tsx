import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { createProfile } from "../../api/actions";
import { productsQuery } from "../../api/queries";
import { FLEET, ownerWords } from "../../lib/profiles";
import { queries } from "../../live";
import { Confirm } from "../../ui/Confirm";
import { say } from "../../ui/toasts";

export type ProfileDraft = { name: string; productId: string; bodyMd: string };

const SAMPLE = `---
description: What it is for, in one line
---

You are …
`;

/** Creates a profile, or the next version of one. */
export function NewProfile({ draft, onClose }: { draft: ProfileDraft; onClose: () => void }) {
  const ids = { name: useId(), owner: useId(), text: useId() };
  const { data } = useQuery(productsQuery);
  const [name, setName] = useState(draft.name);
  const [owner, setOwner] = useState(draft.productId);
  const [text, setText] = useState(draft.bodyMd || SAMPLE);
  const isNext = draft.name !== "";
  const owners = [FLEET, ...(data?.items ?? []).map(({ id }) => id)];

  async function create() {
    if (name.trim() === "") throw new Error("the profile needs a name");
    const made = await createProfile({ name: name.trim(), productId: owner, bodyMd: text });
    await queries.invalidateQueries({ queryKey: ["profiles"] });
    const version = `${made.profile.name}@${made.profile.version}`;
    say(made.created ? "Profile created" : "The newest version has this text", version);
  }

  return (
    <Confirm
      title={isNext ? `New version of ${name}` : "New profile"}
      verb="Create"
      onClose={onClose}
      act={create}
      wide
    >
      {!isNext && (
        <>
          <div className="field">
            <label htmlFor={ids.name}>Name</label>
            <input
              id={ids.name}
              className="input"
              value={name}
              onChange={(event) => setName(event.target.value)}
              placeholder="ux-designer"
            />
          </div>
          <div className="field">
            <label htmlFor={ids.owner}>For the jobs of</label>
            <select id={ids.owner} className="select" value={owner} onChange={(event) => setOwner(event.target.value)}>
              {owners.map((one) => (
                <option key={one} value={one}>
                  {ownerWords(one)}
                </option>
              ))}
            </select>
          </div>
        </>
      )}
      <div className="field">
        <label htmlFor={ids.text}>Text</label>
        <textarea
          id={ids.text}
          className="textarea mono"
          rows={14}
          spellCheck={false}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="hint">
          Markdown: defaults for <code>capabilities</code>, <code>engines</code>, <code>models</code>,{" "}
          <code>budget</code> and <code>verify</code> between the lines <code>---</code>, then the persona
        </span>
      </div>
    </Confirm>
  );
}
