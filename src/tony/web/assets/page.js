// Live updates, local times, log following and controls. Every page is readable without this script.
"use strict";
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

  // Show times in the browser's time zone, with the exact time on hover.
  function localise(root) {
    for (const each of root.querySelectorAll("time[datetime]:not([title])")) {
      const then = new Date(each.dateTime);
      if (isNaN(then)) continue;
      const now = new Date();
      const year = then.getFullYear() === now.getFullYear() ? "" : ` ${then.getFullYear()}`;
      const same = then.toDateString() === now.toDateString();
      if ("exact" in each.dataset) each.textContent = `${same ? "" : `${day.format(then)} `}${clock.format(then)}.${each.dateTime.slice(20, 22)}`;
      else each.textContent = same ? clock.format(then) : `${day.format(then)}${year}, ${clock.format(then).slice(0, 5)}`;
      each.title = `${full.format(then)} (${each.dateTime})`;
    }
  }

  // Show how long something has been running; the server's `format_duration` in whole seconds.
  function tick() {
    for (const each of document.querySelectorAll("[data-elapsed]")) {
      each.since ??= performance.now() - each.dataset.elapsed * 1000;
      const s = Math.round((performance.now() - each.since) / 1000), two = number => String(number).padStart(2, "0");
      each.textContent = s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} m ${two(s % 60)} s`
        : s < 86400 ? `${Math.floor(s / 3600)} h ${two(Math.floor(s % 3600 / 60))} m` : `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
    }
  }

  // Make scrollable tables reachable by keyboard.
  function makeScrollableFocusable() {
    for (const table of document.querySelectorAll("table")) {
      if (table.scrollWidth > table.clientWidth + 1 || table.scrollHeight > table.clientHeight + 1) table.tabIndex = 0; else table.removeAttribute("tabindex");
    }
  }

  // Replace parts of this page with fresh ones, except those with a selection, or with the focus unless it is on a list's
  // entry. Parts with `data-set` are replaced only if that changed.
  function swap(parts) {
    for (const part of parts) {
      const old = document.getElementById(part.id);
      if (!old || selects(old) || (part.dataset.set !== undefined && part.dataset.set === old.dataset.set)) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.closest("a.name")?.getAttribute("href") : "";
      if (focused === undefined) continue;
      const chosen = [...old.querySelectorAll("input:checked")].map(each => each.value);
      const opened = [...old.querySelectorAll("details")].map(each => each.open);
      localise(part);
      if (part.innerHTML === old.innerHTML) continue;
      const scroll = [...old.querySelectorAll("pre")].map(each => atEnd(each) ? 1e9 : each.scrollTop);
      old.replaceChildren(...part.childNodes);
      if (part.dataset.set !== undefined) { old.dataset.set = part.dataset.set; old.dispatchEvent(new Event("tony-swap", { bubbles: true })); }
      for (const each of old.querySelectorAll("input[type=checkbox]")) each.checked = chosen.includes(each.value);
      if (focused) old.querySelector(`a.name[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
      old.querySelectorAll("details").forEach((each, at) => { each.open = opened[at] ?? each.open; });
      old.querySelectorAll("pre").forEach((each, at) => { each.scrollTop = scroll[at] ?? 0; });
    }
    tick();
    makeScrollableFocusable();
  }

  const atEnd = box => box.scrollTop + box.clientHeight >= box.scrollHeight - 5;

  const parsed = html => new DOMParser().parseFromString(html, "text/html");

  function refresh(html) {
    const fresh = parsed(html);
    const now = [...fresh.querySelectorAll("[data-part]")];
    const gone = [...document.querySelectorAll("[data-part]")].some(part => !fresh.getElementById(part.id));
    if (gone || now.some(part => !document.getElementById(part.id)) || !fresh.body.hasAttribute("data-live")) { location.reload(); return; }
    const pending = fresh.querySelector("[data-wait]");
    swap(pending ? now.filter(part => part.id !== "timeline" && part.id !== "goodput") : now);
    if (pending) loadTimeline(pending.dataset.wait).catch(() => {});
    document.body.dataset.live = fresh.body.dataset.live;
    document.dispatchEvent(new Event("tony-refresh"));
  }

  const selects = element => { const chosen = getSelection(); return !chosen.isCollapsed && element.contains(chosen.anchorNode); };

  const happens = (target, event) => new Promise(done => target.addEventListener(event, done, { once: true }));

  // Keep this page up to date. The server answers a request once what the page shows has changed, or after a while. None
  // is made while the page is hidden, or its reader has left the newest lines; fewer are made while the server fails.
  async function live() {
    const body = document.body, box = document.getElementById("follow");
    if (!body.dataset.live || !document.querySelector("[data-part]")) return;
    let pause = leastPause, answeredAt = Date.now(), redirectedAt = 0, request;
    document.addEventListener("visibilitychange", () => { if (document.hidden) request?.abort(); });
    while ("live" in body.dataset) {
      if (document.hidden) { await happens(document, "visibilitychange"); continue; }
      if (box && !box.checked) { await happens(box, "change"); continue; }
      const address = new URL(location.href);
      if (document.getElementById("old").hidden) address.searchParams.set("known", body.dataset.live);
      request = new AbortController();
      try {
        const html = await text(address, "text", request.signal);
        pause = leastPause; answeredAt = Date.now(); redirectedAt = 0;
        showStale(0);
        if (!box || box.checked) refresh(html);
      } catch (error) {
        if (request.signal.aborted) continue;
        redirectedAt = error.redirected ? redirectedAt || Date.now() : 0;
        pause = redirectedAt ? leastPause : Math.min(60, pause * 2);
        showStale(answeredAt);
        if (redirectedAt && Date.now() - redirectedAt > redirectTimeout) { location.reload(); return; }
      }
      await new Promise(done => setTimeout(done, pause * 1000));
    }
  }

  // Seconds between two updates of a page, at least.
  const leastPause = 1.5;

  // A cluster's proxy redirects while a job has no AM, and permanently once the job has ended. Milliseconds.
  const redirectTimeout = 30000;

  // Show since when the server has not responded; 0: hide the message.
  function showStale(since) {
    const place = document.getElementById("old");
    place.hidden = !since;
    if (since && !place.textContent) place.textContent = `The server has not responded since ${clock.format(since)}. This page may be out of date.`;
    if (!since) place.textContent = "";
  }

  async function text(address, as = "text", signal = undefined) {
    // At /metrics, an AM's server has a page for those who accept HTML, and text for others.
    const headers = { Accept: as === "text" ? "text/html" : "application/json" };
    const answer = await fetch(address, { headers, credentials: "same-origin", cache: "no-store", redirect: "manual", signal });
    if (answer.type === "opaqueredirect") throw Object.assign(new Error("Redirected."), { redirected: true });
    if (!answer.ok) throw new Error(answer.status);
    return answer[as]();
  }

  // Load a timeline that takes longer than its page; one at a time, at most every ten seconds.
  async function loadTimeline(address) {
    if (loadTimeline.until > Date.now()) return;
    loadTimeline.until = Infinity;
    try { swap([...parsed(await text(address)).querySelectorAll("[data-part]")]); } finally { loadTimeline.until = Date.now() + 10000; }
  }

  // Load a part that takes long to compute after the page.
  async function loadLater(place) {
    const fresh = parsed(await text(place.dataset.later)).getElementById(place.id);
    if (fresh) place.replaceChildren(...fresh.childNodes);
  }

  // Follow the newest output, until the reader scrolls away from it.
  function follow() {
    const box = document.getElementById("follow");
    if (!box) return;
    box.parentElement.hidden = false;
    const down = () => scrollTo(0, document.documentElement.scrollHeight);
    const atBottom = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;
    let top = 0;
    addEventListener("scroll", () => {
      const follows = scrollY === top ? box.checked : atBottom() || (box.checked && scrollY > top);
      top = scrollY;
      if (follows !== box.checked) { box.checked = follows; box.dispatchEvent(new Event("change")); }
    }, { passive: true });
    box.addEventListener("change", () => { if (box.checked) down(); });
    new MutationObserver(() => { if (box.checked) down(); }).observe(document.getElementById("log"), { childList: true });
    down();
  }

  // Ask whether to do what a button does, in words of the page.
  function confirmed(button) {
    const dialog = document.getElementById("ask");
    dialog.querySelector("h2").textContent = button.dataset.ask;
    dialog.querySelector("p").textContent = button.dataset.detail;
    const yes = dialog.querySelector("button[value=yes]");
    yes.textContent = button.textContent;
    yes.classList.toggle("danger", button.classList.contains("danger"));
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise(done => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
  }

  // Keys: / searches, j and k move in the first list of the page, ? shows them.
  function watchKeys() {
    const keys = document.getElementById("keys"), hint = document.getElementById("keys-hint");
    hint.hidden = false;
    hint.querySelector("button").addEventListener("click", () => keys.showModal());
    function move(by) {
      const entries = [...document.querySelectorAll("main table a.name")].filter(each => each.checkVisibility());
      if (!entries.length) return false;
      const at = entries.indexOf(document.activeElement);
      const next = entries[at < 0 ? (by > 0 ? 0 : entries.length - 1) : Math.min(entries.length - 1, Math.max(0, at + by))];
      next.focus({ preventScroll: true });
      next.closest("tr").scrollIntoView({ block: "nearest" });
      return true;
    }
    function search() {
      const box = [...document.querySelectorAll("main input[type=search]")].find(each => each.checkVisibility());
      if (!box) return false;
      box.focus();
      box.select();
      return true;
    }
    const actions = { "/": search, j: () => move(1), k: () => move(-1), "?": () => { keys.showModal(); return true; } };
    addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable]") && event.target.type !== "checkbox") return;
      if (actions[event.key]?.()) event.preventDefault();
    });
  }

  // Buttons that change something: PUT with the token of this page. They are hidden without JavaScript.
  function control() {
    for (const place of document.querySelectorAll("[data-control]")) {
      place.hidden = false;
      const output = place.querySelector("output");
      const send = async (what, query = "") => {
        output.textContent = "…";
        try {
          const answer = await fetch(`${place.dataset.control}/${what}${query}`, {
            method: "PUT", credentials: "same-origin", headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ token: place.dataset.token }),
          });
          const result = await answer.json().catch(() => ({}));
          if (answer.ok && result.open) { location.assign(`${place.dataset.control}/${result.open}`); return; }
          output.textContent = answer.ok ? result.problem || "Done." : `Failed: ${result.error?.message ?? answer.status}`;
          if (answer.ok && result.text !== undefined) { const shown = place.querySelector("pre"); shown.textContent = result.text; shown.hidden = false; }
        } catch (error) { output.textContent = `Failed: ${error.message}`; }
      };
      for (const button of place.querySelectorAll("button[data-do]")) {
        button.addEventListener("click", async () => {
          if (button.dataset.ask && !await confirmed(button)) return;
          send(button.dataset.do, button.dataset.task ? `?task=${encodeURIComponent(button.dataset.task)}` : "");
        });
      }
      for (const choice of place.querySelectorAll("select[data-do]")) {
        choice.addEventListener("change", () => { if (choice.value) send(choice.dataset.do, `?level=${choice.value}`); });
      }
    }
  }

  // Scroll log tails to their end, and tabs to the current one.
  function scrollInitially() {
    for (const box of document.querySelectorAll("pre.tail")) box.scrollTop = box.scrollHeight;
    for (const here of document.querySelectorAll(".parts [aria-current]")) {
      const row = here.parentElement;
      row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
    }
  }

  document.getElementById("zone").textContent = zone ?? "your time zone";
  scrollInitially();
  localise(document);
  makeScrollableFocusable();
  addEventListener("resize", makeScrollableFocusable);
  document.addEventListener("toggle", makeScrollableFocusable, true);
  control();
  watchKeys();
  for (const choice of document.querySelectorAll("select[data-submit]")) choice.addEventListener("change", () => choice.form.requestSubmit());
  follow();
  const pending = document.querySelector("[data-wait]");
  if (pending) loadTimeline(pending.dataset.wait).catch(() => {});
  document.querySelectorAll("[data-later]").forEach(place => loadLater(place).catch(() => {}));
  if ("live" in document.body.dataset) setInterval(tick, 1000);
  live();
  document.getElementById("hit")?.scrollIntoView({ block: "center" });
  window.tony = { localise, text };
})();
