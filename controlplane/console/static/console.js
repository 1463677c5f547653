// What plain HTML cannot do: say when a live page went blind.
(() => {
  const blind = (isBlind) => document.body.classList.toggle("blind", isBlind);
  document.body.addEventListener("htmx:sseError", () => blind(true));
  document.body.addEventListener("htmx:sendError", () => blind(true));
  document.body.addEventListener("htmx:sseOpen", () => blind(false));
  document.body.addEventListener("htmx:afterSwap", () => blind(false));
})();
