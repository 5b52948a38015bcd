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
      each.textContent = same ? clock.format(then) : `${day.format(then)}${year}, ${clock.format(then).slice(0, 5)}`;
      each.title = `${full.format(then)} (${each.dateTime})`;
    }
  }

  // Make scrollable tables reachable by keyboard.
  function makeScrollableFocusable() {
    for (const table of document.querySelectorAll("table")) {
      if (table.scrollWidth > table.clientWidth + 1 || table.scrollHeight > table.clientHeight + 1) table.tabIndex = 0; else table.removeAttribute("tabindex");
    }
  }

  // Replace parts of this page with fresh ones, except those with the focus or a selection.
  function swap(parts) {
    for (const part of parts) {
      const old = document.getElementById(part.id);
      if (!old || old.contains(document.activeElement) || selects(old)) continue;
      const opened = [...old.querySelectorAll("details")].map(each => each.open);
      localise(part);
      if (part.innerHTML === old.innerHTML) continue;
      const scroll = [...old.querySelectorAll("pre")].map(each => atEnd(each) ? 1e9 : each.scrollTop);
      old.replaceChildren(...part.childNodes);
      old.querySelectorAll("details").forEach((each, at) => { each.open = opened[at] ?? each.open; });
      old.querySelectorAll("pre").forEach((each, at) => { each.scrollTop = scroll[at] ?? 0; });
    }
    makeScrollableFocusable();
  }

  const atEnd = box => box.scrollTop + box.clientHeight >= box.scrollHeight - 5;

  const parsed = html => new DOMParser().parseFromString(html, "text/html");

  function refresh(html) {
    const fresh = parsed(html);
    const now = [...fresh.querySelectorAll("[data-part]")];
    if (now.some(part => !document.getElementById(part.id)) || !fresh.body.hasAttribute("data-live")) { location.reload(); return; }
    const pending = fresh.querySelector("[data-wait]");
    swap(pending ? now.filter(part => part.id !== "timeline" && part.id !== "goodput") : now);
    if (pending) loadTimeline(pending.dataset.wait).catch(() => {});
  }

  const selects = element => { const chosen = getSelection(); return !chosen.isCollapsed && element.contains(chosen.anchorNode); };

  // Poll until `request` returns false: less often while the server fails, not at all while the page is hidden.
  function poll(seconds, request) {
    let pause = seconds, answeredAt = Date.now(), redirectedAt = 0;
    async function step() {
      if (!document.hidden) {
        try {
          if (await request() === false) return;
          pause = seconds; answeredAt = Date.now(); redirectedAt = 0;
          showStale(0);
        } catch (error) {
          redirectedAt = error.redirected ? redirectedAt || Date.now() : 0;
          pause = redirectedAt ? seconds : Math.min(60, pause * 2);
          showStale(answeredAt);
          if (redirectedAt && Date.now() - redirectedAt > redirectTimeout) { location.reload(); return; }
        }
      }
      setTimeout(step, pause * 1000);
    }
    setTimeout(step, seconds * 1000);
  }

  // A cluster's proxy redirects while a job has no AM, and permanently once the job has ended. Milliseconds.
  const redirectTimeout = 30000;

  // Show since when the server has not responded; 0: hide the message.
  function showStale(since) {
    const place = document.getElementById("old");
    place.hidden = !since;
    if (since && !place.textContent) place.textContent = `The server has not responded since ${clock.format(since)}. This page may be out of date.`;
    if (!since) place.textContent = "";
  }

  async function text(address, as = "text") {
    const answer = await fetch(address, { credentials: "same-origin", cache: "no-store", redirect: "manual" });
    if (answer.type === "opaqueredirect") throw Object.assign(new Error("Redirected."), { redirected: true });
    if (!answer.ok) throw new Error(answer.status);
    return answer[as]();
  }

  function live() {
    if (!document.body.hasAttribute("data-live")) return;
    if (document.querySelector("[data-part]")) {
      poll(3, async () => { refresh(await text(location.href)); return document.body.hasAttribute("data-live"); });
    }
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

  // Follow a growing log.
  function follow() {
    const log = document.querySelector("[data-more]");
    const box = document.getElementById("follow");
    if (!log || !box) return;
    box.parentElement.hidden = false;
    const end = document.getElementById("log-end");
    const rest = document.createElement("span");
    let at = log.dataset.at, style = "";
    log.append(rest);
    const atBottom = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;
    const down = () => { if (box.checked) scrollTo(0, document.documentElement.scrollHeight); };
    down();
    addEventListener("scroll", () => { if (!atBottom() && box.checked && !down.own) box.checked = false; }, { passive: true });
    // Append an update; return whether more may follow.
    function append(more) {
      if (more.html) rest.insertAdjacentHTML("beforebegin", more.html);
      rest.innerHTML = more.rest;
      if (more.at !== +at || more.rest) { down.own = true; down(); requestAnimationFrame(() => { down.own = false; }); }
      at = more.at; style = more.style;
      if (more.over) end.textContent = "End of log.";
      return !more.over;
    }
    const request = () => text(`${log.dataset.more}&at=${at}${style ? `&style=${style}` : ""}`, "json");
    poll(1, async () => {
      let more = await request();
      while (append(more) && more.behind && !document.hidden) more = await request();
      return !more.over;
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
        button.addEventListener("click", () => {
          if (button.dataset.ask && !confirm(button.dataset.ask)) return;
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
  follow();
  const pending = document.querySelector("[data-wait]");
  if (pending) loadTimeline(pending.dataset.wait).catch(() => {});
  document.querySelectorAll("[data-later]").forEach(place => loadLater(place).catch(() => {}));
  live();
  document.getElementById("hit")?.scrollIntoView({ block: "center" });
  window.tony = { localise, text, poll };
})();
