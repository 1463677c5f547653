// What plain HTML cannot do: say when a live page went blind, and keep the focus where it was
// when a part of the page is replaced by a newer one.
(() => {
  const blind = (isBlind) => document.body.classList.toggle("blind", isBlind);
  document.body.addEventListener("htmx:sseError", () => blind(true));
  document.body.addEventListener("htmx:sendError", () => blind(true));
  document.body.addEventListener("htmx:responseError", () => blind(true));
  document.body.addEventListener("htmx:sseOpen", () => blind(false));
  document.body.addEventListener("htmx:afterSwap", () => blind(false));

  let focused = null;
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const active = document.activeElement;
    const isInside = active && active !== document.body && event.detail.target.contains(active);
    const peers = isInside ? [...event.detail.target.querySelectorAll("a[href]")] : [];
    const href = isInside ? active.getAttribute("href") : null;
    focused = href === null ? null : { href, nth: peers.filter((each) => each.getAttribute("href") === href).indexOf(active) };
  });
  document.body.addEventListener("htmx:afterSettle", () => {
    if (focused === null || document.activeElement !== document.body) return;
    const same = [...document.querySelectorAll("a[href]")].filter((each) => each.getAttribute("href") === focused.href);
    const main = same.filter((each) => each.closest("main"));
    (main[focused.nth] ?? main[0])?.focus({ preventScroll: true });
    focused = null;
  });
})();
