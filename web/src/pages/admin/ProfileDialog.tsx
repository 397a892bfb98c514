import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { profileQuery } from "../../api/queries";
import type { ProfileView } from "../../api/types";
import { exact } from "../../lib/format";
import { ownerWords } from "../../lib/profiles";
import { Button, WriteButton } from "../../ui/Button";
import { Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";

type Props = { profile: ProfileView; onClose: () => void; change: (bodyMd: string) => void };

/** One profile: the text of any of its versions, and the way to the next one. */
export function ProfileDialog({ profile, onClose, change }: Props) {
  const id = useId();
  const [version, setVersion] = useState(profile.version);
  const { data, error } = useQuery(profileQuery(profile.name, profile.productId, version));
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="dialog is-floating is-wide">
          <div className="dialog-b">
            <Dialog.Title>{profile.name}</Dialog.Title>
            <Dialog.Description>
              For the jobs of {ownerWords(profile.productId)}. Versions never change.
            </Dialog.Description>
            {error !== null && <PanelError error={error} />}
            {data === undefined && error === null && <Skeleton rows={6} />}
            {data !== undefined && (
              <>
                <div className="field">
                  <label htmlFor={id}>Version</label>
                  <select
                    id={id}
                    className="select"
                    value={version}
                    onChange={(event) => setVersion(Number(event.target.value))}
                  >
                    {data.versions.map((one, index) => (
                      <option key={one.version} value={one.version}>
                        {one.version}
                        {index === 0 ? " (newest)" : ""}, {exact(one.createdAt).slice(0, 16)}, by {one.createdBy}
                      </option>
                    ))}
                  </select>
                </div>
                <pre className="out">{data.bodyMd}</pre>
              </>
            )}
          </div>
          <div className="dialog-f">
            <Button onClick={onClose}>Close</Button>
            <WriteButton disabled={data === undefined} onClick={() => data !== undefined && change(data.bodyMd)}>
              New version…
            </WriteButton>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
