import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useEffect, useState } from "react";
import { healthQuery } from "../api/queries";
import { type Credentials, signIn, signInError } from "../api/session";
import { usePhase } from "../live";
import { Button } from "../ui/Button";
import { Glyph } from "../ui/Glyph";
import { Mark } from "../ui/Icon";
import { PanelError } from "../ui/PanelError";

export function SignIn() {
  const { from } = useSearch({ from: "/sign-in" });
  const navigate = useNavigate();
  const phase = usePhase();
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(signInError);
  const health = useQuery({
    ...healthQuery,
    refetchInterval: (query) => (query.state.status === "error" ? 3_000 : false),
  });

  async function run(credentials: Credentials) {
    setBusy(true);
    setError(null);
    try {
      await signIn(credentials);
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  }

  useEffect(() => {
    document.title = "Sign in · giga";
    if (phase === "live" || phase === "polling")
      void navigate({ href: from?.startsWith("/") ? from : "/", replace: true });
  }, [phase, from, navigate]);

  function submit(event: FormEvent) {
    event.preventDefault();
    if (token.trim() !== "" && !isBusy) void run({ token: token.trim() });
  }

  return (
    <div className="gate">
      <main className="gate-card" id="main">
        <div className="brand">
          <Mark />
          <h1>Sign in to giga</h1>
        </div>
        <form className="panel" aria-label="Sign in" onSubmit={submit}>
          {error !== null && <PanelError error={error} />}
          <div className="panel-b">
            <div className="field">
              <label htmlFor="token">API token</label>
              <input
                id="token"
                className="input is-mono"
                type="password"
                autoComplete="off"
                value={token}
                onChange={(event) => setToken(event.target.value)}
                aria-describedby="token-hint"
              />
              <span className="hint" id="token-hint">
                Or open the link that <code>giga sign-in</code> prints on the coordinator's machine
              </span>
            </div>
            <Button type="submit" look="primary" wide aria-disabled={isBusy || token.trim() === ""} aria-busy={isBusy}>
              Sign in
            </Button>
          </div>
          <div className="panel-f small">
            {health.data !== undefined && health.error === null ? (
              <span className="conn" role="status">
                <Glyph name="dot" />
                the coordinator answers
              </span>
            ) : (
              <span className={`conn ${health.error === null ? "is-off" : "is-down"}`} role="status">
                <Glyph name="ring" />
                {health.error === null ? "connecting" : "the coordinator does not answer"}
              </span>
            )}
            <span className="right nums">
              {location.host}
              {health.data !== undefined && ` · v${health.data.version}`}
            </span>
          </div>
        </form>
        <p className="small dim">The session lasts 12 h and ends when its token is revoked.</p>
      </main>
    </div>
  );
}
