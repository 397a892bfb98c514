/**
 * Factories, alerts and metrics have no stream events yet. Until they do, a visible page reads them again this often;
 * with events, set it to `false`: an idle page then makes no request.
 */
export const UNSTREAMED_MS: number | false = 30_000;
