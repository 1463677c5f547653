// Runs before the page is drawn, so that a chosen theme never flashes the other one.
(() => {
  const KEY = "pilothouse-theme";
  const ORDER = ["system", "light", "dark"];
  const read = () => {
    try {
      const stored = localStorage.getItem(KEY);
      return ORDER.includes(stored) ? stored : "system";
    } catch {
      return "system"; // storage may be forbidden; the system's choice still works
    }
  };
  const apply = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = (theme) => {
      button.textContent = `Theme: ${theme}`;
      button.title = "Follow the system, or stay light or dark";
    };
    button.hidden = false;
    label(read());
    button.addEventListener("click", () => {
      const next = ORDER[(ORDER.indexOf(read()) + 1) % ORDER.length];
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // It then lasts for this page only.
      }
      apply(next);
      label(next);
    });
  });
})();
