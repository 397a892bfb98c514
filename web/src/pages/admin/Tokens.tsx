import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { revokeToken } from "../../api/actions";
import { sessionQuery, tokensQuery } from "../../api/queries";
import type { TokenScope, TokenView } from "../../api/types";
import { exact } from "../../lib/format";
import { isSessionToken, type RevokeRisk, revokeRisk } from "../../lib/tokens";
import { queries } from "../../live";
import { Age } from "../../ui/Age";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { TokenDialog } from "./TokenDialog";

export function scopeWords(scope: TokenScope): string {
  switch (scope.role) {
    case "admin":
      return "everything";
    case "operator":
    case "viewer":
      return (scope.products ?? []).length === 0 ? "all products" : (scope.products ?? []).join(", ");
    case "factory":
      return `factory ${scope.factory}`;
    case "join":
      return scope.factory == null ? "any factory, once" : `factory ${scope.factory}, once`;
    default:
      return scope satisfies never;
  }
}

export function Tokens() {
  const query = useQuery(tokensQuery);
  const { data: session } = useQuery(sessionQuery);
  const [isNew, setNew] = useState(false);
  const [revoked, setRevoked] = useState<TokenView | null>(null);
  return (
    <QueryPanel
      title="Tokens"
      query={query}
      sub={({ items }) => String(items.length)}
      right={
        <WriteButton small onClick={() => setNew(true)}>
          New token…
        </WriteButton>
      }
    >
      {({ items }) => (
        <>
          <table className="table is-rows is-fixed">
            <colgroup>
              <col />
              <col className="cw-104" />
              <col className="cw-280" />
              <col className="cw-120" />
              <col className="cw-184" />
              <col className="cw-104" />
            </colgroup>
            <thead>
              <tr>
                <th>Name</th>
                <th>Role</th>
                <th>Scope</th>
                <th className="num">Created</th>
                <th>Expires</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {items.map((token) => (
                <tr key={token.id}>
                  <td className="first strong" title={token.id}>
                    {token.name}
                    {isSessionToken(token, session) && <span className="tag push-1">this session</span>}
                  </td>
                  <td className="tr">{token.grant.role}</td>
                  <td className="dim">{scopeWords(token.grant)}</td>
                  <td className="num">
                    <Age at={token.createdAt} suffix=" ago" />
                  </td>
                  <td className="dim">
                    {token.expiresAt == null ? "never expires" : exact(token.expiresAt).slice(0, 16)}
                  </td>
                  <td className="num">
                    <WriteButton small look="danger" onClick={() => setRevoked(token)}>
                      Revoke…
                    </WriteButton>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {isNew && <TokenDialog onClose={() => setNew(false)} />}
          {revoked !== null && (
            <Revoke token={revoked} risk={revokeRisk(revoked, items, session)} onClose={() => setRevoked(null)} />
          )}
        </>
      )}
    </QueryPanel>
  );
}

function Revoke({ token, risk, onClose }: { token: TokenView; risk: RevokeRisk; onClose: () => void }) {
  return (
    <Confirm
      title={`Revoke ${token.name}?`}
      verb="Revoke"
      danger
      typed={token.name}
      onClose={onClose}
      act={() => revokeToken(token.id).then(() => queries.invalidateQueries({ queryKey: ["tokens"] }))}
    >
      {risk.isOwn && !risk.isLastAdmin && (
        <p className="note-warn">
          <Glyph name="warn" />
          <span>This is the token of your session: you will be signed out.</span>
        </p>
      )}
      {risk.isLastAdmin && (
        <p className="note-warn">
          <Glyph name="warn" />
          <span>This is the last admin token: the coordinator rejects this. Create another one first.</span>
        </p>
      )}
      <p>
        Every client that uses it is rejected at once, and its open streams and sessions end. This cannot be undone.
      </p>
    </Confirm>
  );
}
