// The headers of UI.md §6.2. The coordinator sends the same ones.

/** @param {string} [nonce] only for Vite's dev server, which injects its own script and style elements */
export function securityHeaders(nonce) {
  const own = nonce ? `'self' 'nonce-${nonce}'` : "'self'";
  return {
    "Content-Security-Policy": [
      "default-src 'none'",
      `script-src ${own}`,
      `style-src ${own}`,
      "img-src 'self' data:",
      "font-src 'self'",
      "connect-src 'self'",
      "worker-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join("; "),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
  };
}
