// What pages do beyond links and forms. All of them can be read without it.
"use strict";
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

  // Times in the zone of whoever looks; the exact one on hover.
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

  // What has to be scrolled can be, with keys as well.
  function reachable() {
    for (const table of document.querySelectorAll("table")) {
      if (table.scrollWidth > table.clientWidth + 1 || table.scrollHeight > table.clientHeight + 1) table.tabIndex = 0; else table.removeAttribute("tabindex");
    }
  }

  // Parts of this page are replaced by what the server says now, unless somebody is at work in them.
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
    reachable();
  }

  const atEnd = box => box.scrollTop + box.clientHeight >= box.scrollHeight - 5;

  const parsed = html => new DOMParser().parseFromString(html, "text/html");

  function refresh(html) {
    const fresh = parsed(html);
    const now = [...fresh.querySelectorAll("[data-part]")];
    if (now.some(part => !document.getElementById(part.id)) || !fresh.body.hasAttribute("data-live")) { location.reload(); return; }
    const later = fresh.querySelector("[data-wait]");
    swap(later ? now.filter(part => part.id !== "timeline" && part.id !== "goodput") : now);
    if (later) wait(later.dataset.wait).catch(() => {});
  }

  const selects = element => { const chosen = getSelection(); return !chosen.isCollapsed && element.contains(chosen.anchorNode); };

  // Asks again and again, slower while the server fails, not at all while nobody looks.
  function often(seconds, ask) {
    let pause = seconds, heard = Date.now(), moved = 0;
    async function turn() {
      if (!document.hidden) {
        try {
          if (await ask() === false) return;
          pause = seconds; heard = Date.now(); moved = 0;
          old(0);
        } catch (error) {
          moved = error.moved ? moved || Date.now() : 0;
          pause = moved ? seconds : Math.min(60, pause * 2);
          old(heard);
          if (moved && Date.now() - moved > patience) { location.reload(); return; }
        }
      }
      setTimeout(turn, pause * 1000);
    }
    setTimeout(turn, seconds * 1000);
  }

  // A cluster's proxy leads elsewhere while a job has no master, and for good when it has ended.
  const patience = 30000;

  // Says that what is shown is from then; 0: it is not.
  function old(since) {
    const place = document.getElementById("old");
    place.hidden = !since;
    if (since && !place.textContent) place.textContent = `There is no answer since ${clock.format(since)}. What is shown is from then.`;
    if (!since) place.textContent = "";
  }

  async function text(address, as = "text") {
    const answer = await fetch(address, { credentials: "same-origin", cache: "no-store", redirect: "manual" });
    if (answer.type === "opaqueredirect") throw Object.assign(new Error("It has moved."), { moved: true });
    if (!answer.ok) throw new Error(answer.status);
    return answer[as]();
  }

  function live() {
    if (!document.body.hasAttribute("data-live")) return;
    if (document.querySelector("[data-part]")) {
      often(3, async () => { refresh(await text(location.href)); return document.body.hasAttribute("data-live"); });
    }
  }

  // A picture that takes longer than its page; one at a time, and never twice within ten seconds.
  async function wait(address) {
    if (wait.until > Date.now()) return;
    wait.until = Infinity;
    try { swap([...parsed(await text(address)).querySelectorAll("[data-part]")]); } finally { wait.until = Date.now() + 10000; }
  }

  // What takes its time to be thought about comes after the page.
  async function later(place) {
    const fresh = parsed(await text(place.dataset.later)).getElementById(place.id);
    if (fresh) place.replaceChildren(...fresh.childNodes);
  }

  // A log that grows.
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
    const place = () => `&at=${at}${style ? `&style=${style}` : ""}`;
    // Answers whether there may be more.
    function take(more) {
      if (more.html) rest.insertAdjacentHTML("beforebegin", more.html);
      rest.innerHTML = more.rest;
      if (more.at !== +at || more.rest) { down.own = true; down(); requestAnimationFrame(() => { down.own = false; }); }
      at = more.at; style = more.style;
      if (more.over) end.textContent = "This is all.";
      return !more.over;
    }
    const ask = () => often(1, async () => take(await text(`${log.dataset.more}${place()}`, "json")));

    // The server tells by itself; where something on the way holds that back, it is asked.
    function listen() {
      const source = new EventSource(`${log.dataset.follow}${place()}`);
      let heard = false;
      const patience = setTimeout(() => { if (!heard) { stop(); ask(); } }, 4000);
      const hide = () => { if (document.hidden) { stop(); document.addEventListener("visibilitychange", listen, { once: true }); } };
      const stop = () => { clearTimeout(patience); source.close(); document.removeEventListener("visibilitychange", hide); };
      document.addEventListener("visibilitychange", hide);
      source.onopen = () => { log.dataset.listens = "yes"; };
      source.onmessage = message => { heard = true; if (!take(JSON.parse(message.data))) stop(); };
      source.onerror = () => { stop(); if (heard) setTimeout(listen, 1000); else ask(); };
    }
    if (log.dataset.follow) listen(); else ask();
  }

  // Buttons that change something: PUT, with the token of this page. They are hidden where there is no script.
  function control() {
    for (const place of document.querySelectorAll("[data-control]")) {
      place.hidden = false;
      const said = place.querySelector("output");
      const tell = async (what, query = "") => {
        said.textContent = "…";
        try {
          const answer = await fetch(`${place.dataset.control}/${what}${query}`, {
            method: "PUT", credentials: "same-origin", headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ token: place.dataset.token }),
          });
          const told = await answer.json().catch(() => ({}));
          if (answer.ok && told.open) { location.assign(`${place.dataset.control}/${told.open}`); return; }
          said.textContent = answer.ok ? told.problem || "Done." : `It was not done: ${told.error?.message ?? answer.status}`;
          if (answer.ok && told.text !== undefined) { const shown = place.querySelector("pre"); shown.textContent = told.text; shown.hidden = false; }
        } catch (error) { said.textContent = `It was not done: ${error.message}`; }
      };
      for (const button of place.querySelectorAll("button[data-do]")) {
        button.addEventListener("click", () => {
          if (button.dataset.ask && !confirm(button.dataset.ask)) return;
          tell(button.dataset.do, button.dataset.task ? `?task=${encodeURIComponent(button.dataset.task)}` : "");
        });
      }
      for (const choice of place.querySelectorAll("select[data-do]")) {
        choice.addEventListener("change", () => { if (choice.value) tell(choice.dataset.do, `?level=${choice.value}`); });
      }
    }
  }

  // Of the end of a log the end is seen; of a row of links the one where one is.
  function begin() {
    for (const box of document.querySelectorAll("pre.tail")) box.scrollTop = box.scrollHeight;
    for (const here of document.querySelectorAll(".parts [aria-current]")) {
      const row = here.parentElement;
      row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
    }
  }

  document.getElementById("zone").textContent = zone ?? "your zone";
  begin();
  localise(document);
  reachable();
  addEventListener("resize", reachable);
  document.addEventListener("toggle", reachable, true);
  control();
  follow();
  const picture = document.querySelector("[data-wait]");
  if (picture) wait(picture.dataset.wait).catch(() => {});
  document.querySelectorAll("[data-later]").forEach(place => later(place).catch(() => {}));
  live();
  document.getElementById("hit")?.scrollIntoView({ block: "center" });
  window.tony = { localise, text, often };
})();
