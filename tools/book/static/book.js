"use strict";
// The book's pages: predictions that open their answers, explorers over drawn states, and how far one is.

const PAGE = (path => path.slice(path.lastIndexOf("/") + 1).replace(/\.html$/, ""))(location.pathname);
const BOOK = new URL(document.documentElement.dataset.content_root, location).pathname;  // other editions, other answers
const KEY = page => `residual_edu${BOOK}${page}`;

function recall(page) {
  try { return JSON.parse(localStorage.getItem(KEY(page))) || {}; } catch { return {}; }
}

function keep(question, choice) {
  try { localStorage.setItem(KEY(PAGE), JSON.stringify({ ...recall(PAGE), [question]: choice })); } catch { /* private */ }
}

// A prediction: its answer is not in the page's text before it is opened, so that no search finds it.
function prediction(root) {
  const answer = document.getElementById(root.dataset.answer);
  const buttons = [...root.querySelectorAll("button[data-choice]")];
  const open = choice => {
    answer.hidden = false;
    answer.open = true;
    const said = choice === "" ? "none" : choice;
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.choice === choice);
    for (const text of answer.querySelectorAll(".said"))
      if (text.closest(".answer") === answer)
        text.hidden = !text.classList.contains(said === "none" ? "none" : `said-${said}`);
    typeset(answer);
  };
  if (!answer) return;
  answer.hidden = true;
  const before = recall(PAGE)[root.dataset.question];
  if (before !== undefined) open(before);
  for (const button of root.querySelectorAll("button"))
    button.addEventListener("click", () => {
      const choice = button.dataset.choice ?? "";
      keep(root.dataset.question, choice);
      open(choice);
      tell();
    });
}

// How many predictions of a page are answered, beside each lesson of the front page too.
function tell() {
  const totals = JSON.parse(document.getElementById("questions")?.textContent || "{}");
  const here = document.querySelectorAll(".prediction").length;
  const answered = (page, all) => Math.min(all, Object.keys(recall(page)).length);  // a lesson may have changed since
  const words = (page, all) => `${answered(page, all)} of ${all} predictions answered`;
  for (const place of document.querySelectorAll(".answered:not([data-all])"))
    place.textContent = here ? `On this page: ${words(PAGE, here)}.` : "";
  let done = 0, all = 0;
  for (const [name, count] of Object.entries(totals)) {
    const page = name.slice(name.lastIndexOf("/") + 1);
    done += answered(page, count);
    all += count;
    const link = count && document.querySelector(`article :is(table, li) a[href$="${name}.html"]`);
    if (!link) continue;
    const note = link.parentElement.querySelector(".count") || link.parentElement.appendChild(document.createElement("span"));
    note.className = "count";
    note.textContent = words(page, count);
  }
  for (const place of document.querySelectorAll(".answered[data-all]"))
    place.textContent = `So far: ${done} of ${all} predictions answered in this browser.`;
}

// An explorer: the state of its controls names the picture.
function explorer(root) {
  const states = JSON.parse(root.querySelector("script").textContent);
  const picture = root.querySelector("img"), reading = root.querySelector(".reading");
  const sliders = [...root.querySelectorAll("input")];
  root.addEventListener("input", () => {
    for (const slider of sliders) {
      const value = JSON.parse(slider.dataset.values)[slider.value];
      slider.setAttribute("aria-valuetext", value);
      slider.parentElement.querySelector("output").textContent = value;
    }
    const state = states[sliders.map(one => one.value).join("-")];
    picture.src = root.dataset.place + state.file;
    picture.alt = state.alt;
    reading.textContent = state.reading;
  });
}

// Formulas that are wider than the page become smaller, the cells of a table that is wider, or whose rows
// are as high as a third of the screen, lie below each other, and code that is wider can be scrolled by keys.
function fit(root) {
  root.querySelectorAll(".table-wrapper").forEach(stack);
  for (const formula of root.querySelectorAll("mjx-container")) {
    formula.style.fontSize = formula.dataset.size ??= formula.style.fontSize || "100%";
    const ratio = formula.parentElement.clientWidth / formula.querySelector("mjx-math").offsetWidth;
    if (ratio < 1) formula.style.fontSize = `${0.98 * ratio * parseFloat(formula.dataset.size)}%`;
  }
  for (const code of root.querySelectorAll("pre"))
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0; else code.removeAttribute("tabindex");
}

function stack(wrapper) {
  wrapper.classList.remove("stacked");
  const tallest = Math.max(...[...wrapper.querySelectorAll("tr")].map(row => row.offsetHeight));
  if (wrapper.scrollWidth <= wrapper.clientWidth && tallest < innerHeight / 3) return;
  wrapper.classList.add("stacked");
  const heads = [...wrapper.querySelectorAll("th")].map(head => head.textContent);
  for (const row of wrapper.querySelectorAll("tbody tr"))
    [...row.children].forEach((cell, at) => cell.dataset.head = cell.textContent && heads[at]);
}

// What a screen reader goes by, and furo leaves out: names of its two drawers, and a title of the search.
function name() {
  for (const [drawer, label] of [[".sidebar-drawer", "The book"], [".toc-drawer", "This page"]])
    document.querySelector(drawer)?.setAttribute("aria-label", label);
  if (PAGE === "search") document.querySelector("article").insertAdjacentHTML("afterbegin", "<h1>Search</h1>");
}

// A formula in a fold has no width before the fold opens.
function typeset(root) { requestAnimationFrame(() => fit(root)); }

document.addEventListener("DOMContentLoaded", () => {
  name();
  document.querySelectorAll(".prediction").forEach(prediction);
  document.querySelectorAll(".explorer").forEach(explorer);
  document.addEventListener("toggle", event => typeset(event.target), true);
  addEventListener("resize", () => typeset(document));
  tell();
  (window.MathJax?.startup?.promise || Promise.resolve()).then(() => typeset(document));
});
