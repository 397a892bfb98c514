import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { rememberSignInError, signIn, takeCodeFromFragment } from "./api/session";
import { queries, startLive } from "./live";
import { preloadPages, router } from "./router";
import { Toasts } from "./ui/Toasts";

const code = takeCodeFromFragment();
if (code !== null) await signIn({ code }).catch(rememberSignInError);
startLive();

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
        <Toasts />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);
preloadPages();
