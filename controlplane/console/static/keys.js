// The keyboard: search, lists, jumps between pages, and a list of the keys. Tab always works as
// well, nothing holds the focus, and single keys can be switched off.
(() => {
  const STORAGE = "pilothouse-single-keys";
  const JUMP_MS = 1500;
  const read = () => {
    try {
      return localStorage.getItem(STORAGE) !== "off";
    } catch {
      return true; // storage may be forbidden; the keys then work on every page anew
    }
  };
  let isOn = read();
  let jumpUntil = 0;

  const isTyping = (target) =>
    target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);
  const rows = () =>
    [...document.querySelectorAll("[data-list] tr")]
      .map((row) => row.querySelector("a"))
      .filter((link) => link && link.offsetParent !== null);

  const move = (step) => {
    const links = rows();
    if (!links.length) return false;
    const row = document.activeElement.closest?.("[data-list] tr");
    const current = row ? links.indexOf(row.querySelector("a")) : -1;
    const next = current < 0 ? (step > 0 ? 0 : links.length - 1) : current + step;
    links[Math.min(Math.max(next, 0), links.length - 1)].focus();
    return true;
  };

  const jump = (key) => {
    const link = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (link) link.click();
    return link !== null;
  };

  const help = () => {
    const dialog = document.getElementById("keys");
    if (dialog.open) dialog.close();
    else dialog.showModal();
    return true;
  };

  const act = (event) => {
    const { key } = event;
    if (performance.now() < jumpUntil) {
      jumpUntil = 0;
      return jump(key);
    }
    switch (key) {
      case "/": {
        const search = document.getElementById("find");
        search?.focus();
        search?.select();
        return search !== null;
      }
      case "j":
        return move(1);
      case "k":
        return move(-1);
      case "ArrowDown":
      case "ArrowUp":
        // Only inside a list: elsewhere arrows scroll, as everybody expects.
        return Boolean(document.activeElement.closest?.("[data-list]")) && move(key === "ArrowDown" ? 1 : -1);
      case "g":
        jumpUntil = performance.now() + JUMP_MS;
        return true;
      case "n": {
        const next = document.querySelector('a[rel="next"]');
        next?.click();
        return next !== null;
      }
      case "?":
        return help();
      default:
        return false;
    }
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const isSingle = event.key.length === 1;
    if ((isSingle && !isOn) || document.querySelector("dialog[open]")) return;
    if (act(event)) event.preventDefault();
  });

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("show-keys");
    button.hidden = false;
    button.addEventListener("click", help);
    const box = document.getElementById("single-keys");
    box.checked = isOn;
    box.addEventListener("change", () => {
      isOn = box.checked;
      try {
        localStorage.setItem(STORAGE, isOn ? "on" : "off");
      } catch {
        // It then lasts for this page only.
      }
    });
  });
})();
