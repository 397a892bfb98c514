import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { artifactLink, downloadArtifact, removeArtifact } from "../../api/actions";
import { artifactsQuery } from "../../api/queries";
import type { ArtifactView } from "../../api/types";
import { bytes, plural } from "../../lib/format";
import { Age } from "../../ui/Age";
import { Button, WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { QueryPanel } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";

/** Files that runs attached. They are only downloaded: nothing of them is ever shown here. */
export function Artifacts({ id }: { id: string }) {
  const query = useQuery(artifactsQuery(id));
  const cache = useQueryClient();
  const [removed, setRemoved] = useState<ArtifactView | null>(null);
  const [busy, setBusy] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);

  async function download(artifact: ArtifactView) {
    setBusy(artifact.id);
    setError(null);
    try {
      const { url } = await artifactLink(artifact.id);
      if (url == null) save(await downloadArtifact(artifact.id), artifact.name);
      else follow(url);
    } catch (failure) {
      setError(failure);
    }
    setBusy(null);
  }

  return (
    <QueryPanel
      title="Artifacts"
      query={query}
      sub={(list) => `${plural(list.items.length, "file")}, ${bytes(list.bytes)} of ${bytes(list.bytesMax)}`}
      isEmpty={(list) => list.items.length === 0}
      empty={
        <p className="dim">
          No run has attached a file. <code>artifacts:</code> in the manifest names files to attach after a run; an
          agent can attach some itself.
        </p>
      }
    >
      {(list) => (
        <>
          {error !== null && <PanelError error={error} />}
          <table className="table is-fixed is-rows">
            <colgroup>
              <col />
              <col className="cw-88" />
              <col className="cw-184" />
              <col className="cw-88" />
              <col className="cw-120" />
              <col className="cw-184" />
            </colgroup>
            <thead>
              <tr>
                <th>Name</th>
                <th className="num">Size</th>
                <th>Type</th>
                <th className="num">Run</th>
                <th className="num">Attached</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {list.items.map((artifact) => (
                <tr key={artifact.id}>
                  <td className="first wrap-any" title={`SHA-256 ${artifact.sha256}`}>
                    {artifact.name}
                  </td>
                  <td className="num">{bytes(artifact.bytes)}</td>
                  <td className="dim hide">{artifact.contentType}</td>
                  <td className="num hide">{artifact.run}</td>
                  <td className="num hide">
                    <Age at={artifact.at} suffix=" ago" />
                  </td>
                  <td className="num">
                    <Button
                      small
                      look="quiet"
                      disabled={busy !== null}
                      onClick={() => void download(artifact)}
                      aria-label={`Download ${artifact.name}`}
                    >
                      {busy === artifact.id ? "Downloading…" : "Download"}
                    </Button>
                    <WriteButton
                      small
                      look="quiet"
                      onClick={() => setRemoved(artifact)}
                      aria-label={`Remove ${artifact.name}`}
                    >
                      Remove…
                    </WriteButton>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {removed !== null && (
            <Confirm
              title="Remove this artifact?"
              verb="Remove"
              danger
              onClose={() => setRemoved(null)}
              act={() => removeArtifact(removed.id).then(() => cache.invalidateQueries({ queryKey: ["job", id] }))}
            >
              <p className="wrap-any">{removed.name} cannot be downloaded any more.</p>
            </Confirm>
          )}
        </>
      )}
    </QueryPanel>
  );
}

/** Hands a file to the browser under the last part of its name. */
function save(content: Blob, name: string) {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name.split("/").pop() ?? name;
  link.click();
  URL.revokeObjectURL(url);
}

/** Lets the browser download from the object store, which says that it is an attachment. */
function follow(url: string) {
  const link = document.createElement("a");
  link.href = url;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.click();
}
