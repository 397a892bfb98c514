// Sets the theme before the first paint. Loaded as a classic script from <head>; keep it tiny.
try {
  const theme = localStorage.getItem("giga.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system's theme applies.
}
