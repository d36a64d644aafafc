// The chat page's script: moves fragments that the server renders, and streams an answer.
// It builds no HTML from text: what a model says is set as text until the server has rendered it.

const find = (selector, root = document) => root.querySelector(selector);
const words = JSON.parse(find("#words").textContent);
const turns = find("#turns");
const form = find("#ask");
const question = find("#question");
const sheet = find("#sheet");
const FRAGMENT = { "X-Credence-Fragment": "1" };
let running = null; // { abort, runId, isStopping } while an answer streams

function say(text) {
  find("#spoken").textContent = text;
}

function toast(text) {
  find("#toast")?.remove();
  const box = document.createElement("p");
  box.id = "toast";
  box.setAttribute("role", "alert");
  box.textContent = text;
  (sheet.open ? sheet : document.body).append(box);
  setTimeout(() => box.remove(), 6000);
}

async function problemOf(response) {
  try {
    const told = await response.json();
    return { code: told.code, text: words[told.code] || told.detail || words.failed };
  } catch {
    return { code: "", text: words.failed };
  }
}

// --- fragments: forms and links that put their answer into a part of the page -------------------

function openMenus() {
  return document.querySelectorAll("details.more[open]");
}

function put(target, html) {
  target.innerHTML = html; // rendered and escaped by the server; no script runs from here
  if (target.id === "threads") markCurrent();
  if (target.id === "memory") {
    const waiting = find(".panel", target)?.dataset.waiting || "0";
    find("#waiting-count").textContent = waiting;
    find("#waiting-count").hidden = waiting === "0";
  }
  watch(target);
}

function markCurrent() {
  for (const row of document.querySelectorAll(".threads li:has(a)")) {
    const link = find("a", row);
    const isCurrent = new URL(link.href).searchParams.get("thread") === turns.dataset.thread;
    row.classList.toggle("current", isCurrent);
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function send(sender, submitter) {
  const isGet = sender.method === "get";
  const data = new FormData(sender, submitter);
  const address = isGet ? `${sender.action}?${new URLSearchParams(data)}` : sender.action;
  const response = await fetch(address, {
    method: isGet ? "GET" : "POST",
    body: isGet ? undefined : data,
    headers: FRAGMENT,
  });
  if (!response.ok) {
    const problem = await problemOf(response);
    if (problem.code === "core_full" && !find("[name=may_evict]", sender)) {
      const may = document.createElement("input");
      Object.assign(may, { type: "hidden", name: "may_evict", value: "1" });
      sender.append(may);
    }
    toast(problem.text);
    return;
  }
  put(find(sender.dataset.into), await response.text());
  const moved = response.headers.get("X-Credence-Thread");
  if (moved) {
    const [id, status] = moved.split(" ");
    if (id === turns.dataset.thread) setArchived(status === "archived");
  }
}

document.addEventListener("submit", (event) => {
  const sender = event.target;
  if (!sender.dataset.into) return;
  event.preventDefault();
  if (sender.dataset.sure && !window.confirm(sender.dataset.sure)) return;
  send(sender, event.submitter).catch(() => toast(words.offline));
});

let typing = 0;
find(".find").addEventListener("input", (event) => {
  clearTimeout(typing);
  const sender = event.currentTarget;
  typing = setTimeout(() => sender.requestSubmit(), 200);
});

function setArchived(isArchived) {
  find("#archived-note").hidden = !isArchived;
  question.disabled = isArchived;
  find("#send").disabled = isArchived;
}

async function fragment(address) {
  const response = await fetch(address, { headers: FRAGMENT });
  if (!response.ok) throw new Error((await problemOf(response)).text);
  return response.text();
}

async function show(address) {
  find("#sheet-body").innerHTML = await fragment(address);
  sheet.showModal();
}

async function refresh(id, address) {
  try {
    put(find(id), await fragment(address));
  } catch {
    // What stands there stays; the next answer tries again.
  }
}

document.addEventListener("click", (event) => {
  const at = event.target.closest("[data-sheet], [data-earlier], [data-continue], [data-term], [data-copy], [data-toggle], [data-noticed]");
  for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
  if (!at) return;
  const data = at.dataset;
  if ("sheet" in data) {
    event.preventDefault();
    show(at.href).catch((error) => toast(error.message));
  } else if ("earlier" in data) {
    event.preventDefault();
    earlier(at).catch((error) => toast(error.message));
  } else if (data.continue) {
    form.elements.continues.value = data.continue;
    find("#continuing").hidden = false;
    question.focus();
  } else if (data.term) {
    const body = find("#sheet-body");
    body.replaceChildren(find("#term-form").content.cloneNode(true));
    find("form", body).action = data.term;
    sheet.showModal();
  } else if ("copy" in data) {
    const text = find(".text", at.closest(".said"))?.innerText || "";
    navigator.clipboard?.writeText(text).then(() => toast(words.copied), () => {});
  } else if (data.toggle) {
    const side = find(`#${data.toggle}`);
    at.setAttribute("aria-expanded", String(side.classList.toggle("open")));
  } else if ("noticed" in data) {
    const notice = at.closest("[data-notice]");
    localStorage.setItem(`noticed ${location.pathname}`, notice.dataset.notice);
    notice.remove();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of openMenus()) menu.open = false;
  for (const side of document.querySelectorAll(".side.open")) {
    side.classList.remove("open");
    const button = find(`[data-toggle=${side.id}]`);
    button.setAttribute("aria-expanded", "false");
    button.focus();
  }
});

async function earlier(link) {
  const html = await fragment(link.href);
  const height = turns.scrollHeight;
  const box = document.createElement("template");
  box.innerHTML = html;
  link.closest("p").replaceWith(box.content);
  turns.scrollTop += turns.scrollHeight - height;
}

// --- a turn that is still on its way (the page was opened anew while it answered) ----------------

function watch(root) {
  for (const turn of root.querySelectorAll("[data-poll]")) {
    setTimeout(async () => {
      try {
        await renew(turn, turn.dataset.poll);
      } catch {
        watch(turn.parentNode);
      }
    }, 2000);
  }
}

async function renew(turn, address) {
  const box = document.createElement("template");
  box.innerHTML = await fragment(address);
  const fresh = box.content.firstElementChild;
  turn.replaceWith(fresh);
  if (fresh.dataset.poll) watch(fresh.parentNode);
  return fresh;
}

// --- asking --------------------------------------------------------------------------------------

function grow() {
  question.style.height = "auto";
  question.style.height = `${Math.min(question.scrollHeight + 2, 192)}px`;
}

function isAtEnd() {
  return turns.scrollHeight - turns.scrollTop - turns.clientHeight < 120;
}

function setRunning(now) {
  running = now;
  find("#send").hidden = Boolean(now);
  find("#stop").hidden = !now;
  turns.setAttribute("aria-busy", String(Boolean(now)));
}

// Server-sent events of one answer; source: the HTML standard, "Server-sent events".
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const block = rest.slice(0, end);
      rest = rest.slice(end + 2);
      const name = /^event: (.*)$/m.exec(block)?.[1];
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (name && data) yield [name, JSON.parse(data)];
    }
  }
}

function begin(text) {
  const turn = find("#waiting-turn").content.firstElementChild.cloneNode(true);
  find(".mine p", turn).textContent = text;
  find(".wait", turn).textContent = words.thinking;
  find("#empty").hidden = true;
  turns.append(turn);
  turns.scrollTop = turns.scrollHeight;
  return turn;
}

function begun(told) {
  running.runId = told.run_id;
  if (running.isStopping) stop();
  if (turns.dataset.thread === told.thread_id) return;
  turns.dataset.thread = told.thread_id;
  form.elements.thread_id.value = told.thread_id;
  find("#thread-title").textContent = told.title || "";
  history.replaceState(null, "", `?thread=${encodeURIComponent(told.thread_id)}`);
}

function toolLine(turn, text) {
  const line = document.createElement("p");
  line.className = "quiet";
  line.textContent = text;
  find(".tools", turn).append(line);
}

async function follow(response, turn) {
  const text = find(".text", turn);
  let last = null;
  for await (const [name, told] of events(response)) {
    const wasAtEnd = isAtEnd();
    if (name === "started") begun(told);
    else if (name === "delta") {
      find(".wait", turn).hidden = true;
      text.append(told.text);
    } else if (name === "tool_call") toolLine(turn, `${words.tool} ${told.name}`);
    else if (name === "tool_result") toolLine(turn, told.summary || "");
    else if (name === "completed" || name === "failed" || name === "cancelled") last = name;
    if (wasAtEnd) turns.scrollTop = turns.scrollHeight;
  }
  return last;
}

function refuse(turn, text, asked) {
  turn.remove();
  find("#empty").hidden = Boolean(find(".turn", turns));
  if (!question.value) question.value = asked;
  grow();
  toast(text);
}

async function ask() {
  const asked = question.value;
  if (!asked.trim() || running) return;
  const data = new FormData(form);
  const abort = new AbortController();
  const turn = begin(asked);
  setRunning({ abort, runId: null, isStopping: false });
  question.value = "";
  grow();
  let last = null;
  try {
    const response = await fetch(form.action, { method: "POST", body: data, headers: FRAGMENT, signal: abort.signal });
    if (!response.ok) {
      refuse(turn, (await problemOf(response)).text, asked);
      return;
    }
    last = await follow(response, turn);
  } catch {
    if (!running.isStopping) toast(words.offline);
  } finally {
    const runId = running.runId;
    if (runId) await ended(turn, runId, last, asked);
    else if (turn.isConnected) refuse(turn, words.offline, asked);
    setRunning(null);
    question.focus();
  }
}

async function ended(turn, runId, last, asked) {
  const base = location.pathname;
  form.elements.continues.value = "";
  find("#continuing").hidden = true;
  try {
    const wasAtEnd = isAtEnd();
    await renew(turn, `${base}runs/${runId}`);
    if (wasAtEnd) turns.scrollTop = turns.scrollHeight;
  } catch {
    find(".wait", turn).hidden = false;
    find(".wait", turn).textContent = words.failed;
    turn.querySelector(".theirs").classList.remove("streaming");
  }
  if (last === "completed") say(words.answered);
  if (last === "cancelled") say(words.cancelled);
  if (last === "failed") {
    say(words.failed);
    if (!question.value) question.value = asked;
    grow();
  }
  refreshSides();
}

function refreshSides() {
  refresh("#threads", find("#history").dataset.src);
  refresh("#memory", `${location.pathname}memory`);
  // What was learned of the turn is written by the worker a moment later.
  setTimeout(() => running || sheet.open || refresh("#memory", `${location.pathname}memory`), 5000);
}

function stop() {
  if (!running) return;
  running.isStopping = true;
  if (!running.runId) return; // as soon as the run is known
  const data = new FormData();
  data.set("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
  const address = `${location.pathname}runs/${running.runId}/stop`;
  fetch(address, { method: "POST", body: data, headers: FRAGMENT }).catch(() => {});
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
question.addEventListener("input", grow);
question.addEventListener("keydown", (event) => {
  // isComposing: Enter that ends a word of an input method, as in Chinese, does not send.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
find("#stop").addEventListener("click", stop);
find("#continue-off").addEventListener("click", () => {
  form.elements.continues.value = "";
  find("#continuing").hidden = true;
});

const notice = find("[data-notice]");
if (notice && localStorage.getItem(`noticed ${location.pathname}`) === notice.dataset.notice) notice.remove();
turns.scrollTop = turns.scrollHeight;
watch(turns);
if (!question.disabled) question.focus();
