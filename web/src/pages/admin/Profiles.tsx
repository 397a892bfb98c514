import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { profilesQuery } from "../../api/queries";
import type { ProfileView } from "../../api/types";
import { FLEET, ownerWords, setsWords } from "../../lib/profiles";
import { Age } from "../../ui/Age";
import { Button, WriteButton } from "../../ui/Button";
import { QueryPanel } from "../../ui/Panel";
import { NewProfile, type ProfileDraft } from "./NewProfile";
import { ProfileDialog } from "./ProfileDialog";

const EMPTY: ProfileDraft = { name: "", productId: FLEET, bodyMd: "" };

export function Profiles() {
  const query = useQuery(profilesQuery);
  const [shown, setShown] = useState<ProfileView | null>(null);
  const [draft, setDraft] = useState<ProfileDraft | null>(null);
  return (
    <>
      <QueryPanel
        title="Profiles"
        query={query}
        sub={({ items }) => String(items.length)}
        right={
          <WriteButton small onClick={() => setDraft(EMPTY)}>
            New profile…
          </WriteButton>
        }
        isEmpty={({ items }) => items.length === 0}
        empty={
          <p className="dim">
            A profile is a persona for the agent, with defaults for the jobs that name it. <code>giga init</code> writes
            six samples; the coordinator reads them when it starts.
          </p>
        }
      >
        {({ items }) => (
          <table className="table is-rows is-fixed">
            <colgroup>
              <col className="cw-196" />
              <col className="cw-120" />
              <col />
              <col className="cw-184" />
              <col className="cw-120" />
              <col className="cw-88" />
            </colgroup>
            <thead>
              <tr>
                <th>Profile</th>
                <th>For</th>
                <th>Description</th>
                <th>Sets</th>
                <th className="num">Created</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {items.map((profile) => (
                <tr key={`${profile.productId}/${profile.name}`}>
                  <td className="first strong">
                    {profile.name}
                    <span className="dim">@{profile.version}</span>
                  </td>
                  <td className={profile.productId === FLEET ? "tr dim" : "tr"}>{ownerWords(profile.productId)}</td>
                  <td className="wrap-any">{profile.description ?? ""}</td>
                  <td className="dim" data-l="Sets">
                    {setsWords(profile.defaults) || "nothing"}
                  </td>
                  <td className="num">
                    <Age at={profile.createdAt} suffix=" ago" />
                  </td>
                  <td className="num">
                    <Button small look="quiet" onClick={() => setShown(profile)} aria-label={`Show ${profile.name}`}>
                      Show
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </QueryPanel>
      {shown !== null && (
        <ProfileDialog
          profile={shown}
          onClose={() => setShown(null)}
          change={(bodyMd) => {
            setShown(null);
            setDraft({ name: shown.name, productId: shown.productId, bodyMd });
          }}
        />
      )}
      {draft !== null && <NewProfile draft={draft} onClose={() => setDraft(null)} />}
    </>
  );
}
