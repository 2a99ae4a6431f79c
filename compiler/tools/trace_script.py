"""Style and script of the page that `trace_page.py` writes. All data is put in as text nodes."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #4a90d9; --hot: #e0782e; }
* { box-sizing: border-box; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 0 1rem 2rem; }
header { display: flex; gap: 1rem; align-items: baseline; flex-wrap: wrap; }
h1 { font-size: 1.2rem; margin: .6rem 0; }
p { margin: .3rem 0; }
canvas { width: 100%; height: 150px; border: 1px solid var(--line); cursor: grab; }
.hint { color: gray; font-size: 12px; }
#detail { min-height: 4.5em; font-family: ui-monospace, monospace; white-space: pre-wrap; }
main { display: flex; gap: 1.5rem; flex-wrap: wrap; }
#tables { flex: 3 1 30rem; min-width: 0; }
#source { flex: 2 1 24rem; min-width: 0; max-height: 80vh; overflow: auto; }
nav button { font: inherit; margin: 0 .3rem .4rem 0; cursor: pointer; }
nav button[aria-pressed=true] { font-weight: bold; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .1rem .5rem; border-bottom: 1px solid var(--line); }
td.label, th.label, td.what, th.what { text-align: left; }
td.what { font-family: ui-monospace, monospace; font-size: 12px; overflow-wrap: anywhere; }
td.share { background: linear-gradient(to right, var(--bar) var(--part), transparent var(--part)); }
tbody tr { cursor: pointer; }
tr.chosen { outline: 2px solid var(--hot); }
pre { margin: 0; font: 12px/1.5 ui-monospace, monospace; }
.row { display: flex; gap: .5rem; }
.row .time { width: 5.5em; text-align: right; color: var(--hot); flex: none; }
.row .number { width: 3em; text-align: right; color: gray; flex: none; }
.row .text { white-space: pre; }
.row.marked { background: #e0782e33; }
"""

SCRIPT = """
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const pick = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const time = (ns) => {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]])
    if (ns >= size) return (ns / size).toPrecision(3) + unit;
  return Math.round(ns) + "ns";
};

// The program text, with the time of each line beside it.
const lines = new Map();
for (const [file, text] of Object.entries(data.sources)) {
  pick("source").append(make("h2", "", file));
  const pre = make("pre");
  text.forEach((content, i) => {
    const row = make("div", "row");
    const spent = (data.lines[file] || {})[i + 1];
    row.append(make("span", "time", spent ? time(spent) : ""));
    row.append(make("span", "number", String(i + 1)));
    row.append(make("span", "text", content));
    lines.set(file + ":" + (i + 1), row);
    pre.append(row);
  });
  pick("source").append(pre);
}
const mark = (places) => {
  document.querySelectorAll(".row.marked").forEach((row) => row.classList.remove("marked"));
  let first = null;
  for (const place of places) {
    const row = lines.get(place);
    if (row) { row.classList.add("marked"); first = first || row; }
  }
  if (first) first.scrollIntoView({ block: "nearest" });
};

// Tables.
const COLUMNS = [["share", "share"], ["total", "total"], ["calls", "calls"], ["mean", "mean"],
                 ["label", ""], ["what", "what"]];
const show = (key) => {
  document.querySelectorAll("nav button").forEach((button) =>
    button.setAttribute("aria-pressed", String(button.dataset.key === key)));
  const head = document.querySelector("#tables thead"), body = document.querySelector("#tables tbody");
  head.replaceChildren(make("tr"));
  for (const [name, title] of COLUMNS) head.firstChild.append(make("th", name, title || key));
  body.replaceChildren();
  for (const row of data.tables[key]) {
    const line = make("tr");
    const share = make("td", "share", (100 * row.share).toFixed(1) + " %");
    share.style.setProperty("--part", (100 * row.share).toFixed(1) + "%");
    line.append(share, make("td", "", time(row.total_ns)), make("td", "", String(row.calls)),
                make("td", "", time(row.mean_ns)), make("td", "label", row.label),
                make("td", "what", row.detail));
    line.addEventListener("click", () => {
      body.querySelectorAll(".chosen").forEach((other) => other.classList.remove("chosen"));
      line.classList.add("chosen");
      mark(row.places.map((place) => place.replace(/:[0-9]+$/, "")));
    });
    body.append(line);
  }
};
document.querySelectorAll("nav button").forEach((button) =>
  button.addEventListener("click", () => show(button.dataset.key)));
show("node");

// The timeline: blocks above, nodes below.
const canvas = pick("canvas"), draw2d = canvas.getContext("2d");
const spans = [], open = [];
let depth = 0, last = 0;
for (const event of data.events) {
  last = Math.max(last, event.start + event.time);
  if (event.kind === "BlockEnter") {
    open.push({ event, start: event.start, row: open.length });
  } else if (event.kind === "BlockExit") {
    const begun = open.pop();
    if (begun) spans.push({ ...begun, time: event.start - begun.start, block: true });
  } else {
    spans.push({ event, start: event.start, time: event.time, row: open.length, block: false });
  }
  depth = Math.max(depth, open.length);
}
const HEIGHT = 22, AXIS = 18;
canvas.height = AXIS + (depth + 1) * HEIGHT + 4;
canvas.style.height = canvas.height + "px";
let from = 0, to = Math.max(last, 1), chosen = null;
const colour = (name) => {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) % 360;
  return "hsl(" + hash + " 55% 55%)";
};
const paint = () => {
  canvas.width = canvas.clientWidth;
  const width = canvas.width, scale = width / (to - from);
  draw2d.clearRect(0, 0, width, canvas.height);
  draw2d.font = "11px system-ui, sans-serif";
  draw2d.fillStyle = "gray";
  for (let i = 0; i <= 6; i++) {
    const at = from + (to - from) * i / 6;
    draw2d.fillText(time(Math.max(0, at)), Math.min(i * width / 6 + 2, width - 40), 12);
  }
  for (const span of spans) {
    const left = (span.start - from) * scale, wide = Math.max(span.time * scale, 1);
    if (left > width || left + wide < 0) continue;
    const top = AXIS + span.row * HEIGHT;
    draw2d.fillStyle = span.block ? "#8886" : colour(span.event.name);
    draw2d.fillRect(left, top, wide, HEIGHT - 2);
    if (span === chosen) { draw2d.strokeStyle = "#e0782e"; draw2d.strokeRect(left, top, wide, HEIGHT - 2); }
    const label = span.block ? span.event.block : span.event.name;
    if (wide > 30) {
      draw2d.save();
      draw2d.beginPath(); draw2d.rect(left, top, wide, HEIGHT); draw2d.clip();
      draw2d.fillStyle = span.block ? "gray" : "white";
      draw2d.fillText(label, Math.max(left, 0) + 3, top + 14);
      draw2d.restore();
    }
  }
};
const tell = (span) => {
  chosen = span;
  const event = span.event, detail = pick("detail");
  const nodes = event.nodes.length > 1 ? "nodes " + event.nodes.join(", ") : "node " + event.nodes[0];
  const parts = [nodes + " · " + time(span.time) + " · step " + event.step
                 + (event.kernel ? " · " + event.kernel : "") + (event.scope ? " · " + event.scope : ""),
                 event.text.split("; ").join("\\n"), event.shapes.join(", ")];
  detail.textContent = parts.filter(Boolean).join("\\n");
  mark(event.places.map(([file, line]) => file + ":" + line));
  paint();
};
const at = (pointer) => {
  const box = canvas.getBoundingClientRect();
  const part = (pointer.clientX - box.left) / box.width;
  return { time: from + part * (to - from), y: pointer.clientY - box.top };
};
canvas.addEventListener("wheel", (turn) => {
  turn.preventDefault();
  const centre = at(turn).time, factor = turn.deltaY > 0 ? 1.25 : 0.8;
  from = centre - (centre - from) * factor;
  to = centre + (to - centre) * factor;
  paint();
}, { passive: false });
let grip = null, moved = false;
canvas.addEventListener("pointerdown", (press) => { grip = { x: press.clientX, from, to }; moved = false; });
window.addEventListener("pointermove", (move) => {
  if (!grip) return;
  const shift = (move.clientX - grip.x) / canvas.clientWidth * (grip.to - grip.from);
  moved = moved || Math.abs(move.clientX - grip.x) > 3;
  from = grip.from - shift; to = grip.to - shift;
  paint();
});
window.addEventListener("pointerup", () => { grip = null; });
canvas.addEventListener("click", (press) => {
  if (moved) return;
  const point = at(press), reach = 2 * (to - from) / canvas.clientWidth;
  const found = spans.filter((span) => point.y >= AXIS + span.row * HEIGHT
    && point.y < AXIS + (span.row + 1) * HEIGHT
    && point.time >= span.start - reach && point.time <= span.start + span.time + reach);
  found.sort((a, b) => b.time - a.time);
  if (found.length) tell(found[0]);
});
canvas.addEventListener("dblclick", () => { from = 0; to = Math.max(last, 1); paint(); });
window.addEventListener("resize", paint);
if (data.cut) pick("detail").textContent = data.cut + " later events are not drawn; the tables count them.";
paint();
"""
