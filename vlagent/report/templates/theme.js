(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (on) => { root.dataset.theme = on ? "dark" : "light"; };
  setTheme(dark.matches);
  dark.addEventListener("change", () => setTheme(dark.matches));
  const toggle = () => setTheme(root.dataset.theme !== "dark");
  document.getElementById("theme").addEventListener("click", toggle);
  addEventListener("keydown", (event) => {
    if (event.key !== "t" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]") || event.target.closest("input[type=search], select")) return;
    toggle();
  });
})();
