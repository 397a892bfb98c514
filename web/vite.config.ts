/// <reference types="vitest/config" />
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { securityHeaders } from "./scripts/csp.mjs";
import { themeBoot } from "./scripts/theme-boot.mjs";

const DEV_NONCE = "giga-dev";

/** The coordinator behind the dev server. `GIGA_DEV_TOKEN` signs every call in; without it, sign in by session. */
function coordinator() {
  const token = process.env.GIGA_DEV_TOKEN;
  const target = process.env.GIGA_DEV_API ?? "http://127.0.0.1:7878";
  const options = {
    target,
    // The coordinator compares Origin with Host: both stay those of the page.
    changeOrigin: false,
    headers: token ? { authorization: `Bearer ${token}` } : undefined,
  };
  return { "/api": options, "/healthz": options };
}

export default defineConfig(({ command, isPreview }) => ({
  plugins: [react(), tailwindcss(), themeBoot()],
  html: command === "serve" && !isPreview ? { cspNonce: DEV_NONCE } : undefined,
  server: { host: "127.0.0.1", headers: securityHeaders(DEV_NONCE), proxy: coordinator() },
  preview: { host: "127.0.0.1", headers: securityHeaders(), proxy: coordinator() },
  build: {
    target: "es2023",
    assetsDir: "assets",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"], restoreMocks: true },
}));
