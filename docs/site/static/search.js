// Search in the browser: no server, no other host, English and Chinese.
//
// The index (search-index.js) is a list of sections: address, page, heading, text. It is fetched as a
// script when somebody first goes to the field, so that it also works for pages opened from a folder.
// Words are cut to simple stems, Chinese, Japanese and Korean runs into pairs of characters, as the
// product itself does; ranking is BM25, with headings counting more.
"use strict";

(() => {
  const CJK = /[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]/u;
  const PIECES = /[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+|[\p{L}\p{N}_]+/gu;
  const MOST = 20;
  const HEADING = 5; // how often a word of the heading counts, against one in the text
  const PAGE = 2;
  const K1 = 1.2;
  const B = 0.6;
  const WORDS = document.documentElement.lang.startsWith("zh")
    ? { none: "没有找到。", some: (n) => `${n} 处` }
    : { none: "Nothing was found.", some: (n) => (n === 1 ? "1 place" : `${n} places`) };

  let sections = null;
  let postings = null;
  let vocabulary = [];
  let meanLength = 1;

  const stem = (word) => {
    if (word.length < 4 || CJK.test(word)) return word;
    return word.replace(/(?<=..)(?:ies|ied)$/, "y").replace(/(?<=...)(?:ing|ed|es|s|e)$/, "");
  };

  const tokens = (text) => {
    const found = [];
    for (const [piece] of text.normalize("NFKC").toLowerCase().matchAll(PIECES)) {
      if (!CJK.test(piece[0])) {
        found.push(stem(piece));
        if (piece.includes("_")) found.push(...piece.split("_").filter(Boolean).map(stem));
      } else if (piece.length === 1) found.push(piece);
      else for (let at = 0; at + 1 < piece.length; at += 1) found.push(piece.slice(at, at + 2));
    }
    return found;
  };

  const take = (rows) => {
    sections = rows;
    postings = new Map();
    let total = 0;
    rows.forEach((row, number) => {
      const [, page, heading, text] = row;
      const counts = new Map();
      const add = (word, by) => counts.set(word, (counts.get(word) || 0) + by);
      tokens(text).forEach((word) => add(word, 1));
      tokens(heading).forEach((word) => add(word, HEADING));
      tokens(page).forEach((word) => add(word, heading ? PAGE : HEADING));
      let length = 0;
      for (const [word, count] of counts) {
        length += count;
        if (!postings.has(word)) postings.set(word, []);
        postings.get(word).push([number, count]);
      }
      row.push(length);
      total += length;
    });
    meanLength = total / Math.max(1, rows.length);
    vocabulary = [...postings.keys()];
  };

  // The words of the index that a word of the question stands for: itself, or what begins with it.
  const meant = (word) => {
    const found = postings.has(word) ? [[word, 1]] : [];
    if (word.length < (CJK.test(word) ? 1 : 3)) return found;
    for (const other of vocabulary)
      if (other !== word && other.startsWith(word)) found.push([other, 0.5]);
    return found;
  };

  const search = (question) => {
    const words = [...new Set(tokens(question))];
    const scores = new Map();
    words.forEach((word) => {
      const best = new Map(); // a word counts once a section, by its best form
      for (const [form, share] of meant(word)) {
        const rows = postings.get(form);
        const idf = Math.log(1 + (sections.length - rows.length + 0.5) / (rows.length + 0.5));
        for (const [number, count] of rows) {
          const norm = 1 - B + (B * sections[number][4]) / meanLength;
          const score = (share * idf * count * (K1 + 1)) / (count + K1 * norm);
          best.set(number, Math.max(best.get(number) || 0, score));
        }
      }
      for (const [number, score] of best) {
        const [sum, hits] = scores.get(number) || [0, 0];
        scores.set(number, [sum + score, hits + 1]);
      }
    });
    return [...scores]
      .map(([number, [sum, hits]]) => [number, sum * (hits / words.length) ** 2])
      .sort((left, right) => right[1] - left[1] || left[0] - right[0])
      .slice(0, MOST)
      .map(([number]) => sections[number]);
  };

  // Puts a text into a node with what was looked for marked.
  const mark = (node, text, looked) => {
    let rest = text;
    while (looked && rest) {
      const found = looked.exec(rest);
      if (!found) break;
      node.append(rest.slice(0, found.index));
      const marked = document.createElement("mark");
      marked.textContent = found[0];
      node.append(marked);
      rest = rest.slice(found.index + found[0].length);
    }
    node.append(rest);
  };

  const pattern = (question) => {
    const pieces = [...question.normalize("NFKC").matchAll(PIECES)].map(([piece]) =>
      CJK.test(piece[0]) ? piece : stem(piece.toLowerCase()),
    );
    const parts = pieces.flatMap((piece) =>
      CJK.test(piece[0]) && piece.length > 2
        ? [piece, ...Array.from({ length: piece.length - 1 }, (_, at) => piece.slice(at, at + 2))]
        : [piece],
    );
    return parts.length ? new RegExp(parts.sort((a, b) => b.length - a.length).join("|"), "iu") : null;
  };

  const excerpt = (text, looked) => {
    const at = looked ? text.search(looked) : -1;
    const from = Math.max(0, at - 60);
    const begin = from ? text.indexOf(" ", from) + 1 || from : 0;
    const start = begin > at && at >= 0 ? from : begin;
    const cut = text.slice(start, start + 180);
    return (start ? "… " : "") + cut + (start + 180 < text.length ? " …" : "");
  };

  const field = document.getElementById("find");
  if (!field) return;
  const root = field.parentElement.dataset.root;
  const panel = document.createElement("div");
  panel.className = "found";
  panel.hidden = true;
  const told = document.createElement("p");
  told.className = "found-count";
  told.setAttribute("role", "status");
  const list = document.createElement("ul");
  list.id = "found";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", field.getAttribute("aria-label"));
  panel.append(told, list);
  document.body.append(panel);
  let chosen = -1;

  const load = () => {
    if (window.credenceSections || document.getElementById("search-index")) return;
    const script = document.createElement("script");
    script.id = "search-index";
    script.src = `${root}_static/search-index.js`;
    script.addEventListener("load", () => show());
    document.head.append(script);
  };

  const choose = (number) => {
    const rows = [...list.children];
    if (!rows.length) return;
    chosen = (number + rows.length) % rows.length;
    rows.forEach((row, at) => row.setAttribute("aria-selected", String(at === chosen)));
    rows[chosen].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", rows[chosen].id);
  };

  const close = () => {
    panel.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };

  const row = ([address, page, heading, text], number, looked) => {
    const item = document.createElement("li");
    item.id = `found-${number}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    const link = document.createElement("a");
    link.href = root + address;
    link.tabIndex = -1;
    const where = document.createElement("strong");
    mark(where, heading || page, looked);
    link.append(where);
    if (heading) {
      const of = document.createElement("span");
      of.className = "found-page";
      of.textContent = page;
      link.append(of);
    }
    const said = document.createElement("span");
    said.className = "found-text";
    mark(said, excerpt(text, looked), looked);
    link.append(said);
    link.addEventListener("click", close);
    item.append(link);
    return item;
  };

  const show = () => {
    const question = field.value.trim();
    if (!window.credenceSections || !question) {
      if (!question) close();
      return;
    }
    if (!sections) take(window.credenceSections);
    const looked = pattern(question);
    const found = search(question);
    list.replaceChildren(...found.map((section, number) => row(section, number, looked)));
    told.textContent = found.length ? WORDS.some(found.length) : WORDS.none;
    // Where the sidebar lies over the page, the results stand below the field, else beside it.
    panel.style.setProperty("--below", `${field.getBoundingClientRect().bottom + 8}px`);
    panel.hidden = false;
    field.setAttribute("aria-expanded", "true");
    chosen = -1;
    if (found.length) choose(0);
  };

  field.addEventListener("focus", load);
  field.addEventListener("input", () => {
    load();
    show();
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && chosen >= 0 && !panel.hidden)
      list.children[chosen].firstElementChild.click();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    const isTyping = at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement;
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const drawer = document.getElementById("__navigation");
    if (drawer && getComputedStyle(field).visibility !== "visible") drawer.checked = true;
    field.focus();
  });
  document.addEventListener("click", (event) => {
    if (!panel.contains(event.target) && event.target !== field) close();
  });
})();
