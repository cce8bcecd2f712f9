// The style sheet of the report's page, and a short script that shows values at the pointer without delay.
#pragma once

namespace lt::report {

// Colours: Okabe and Ito (2008), darkened or lightened for the background, ordered so that neighbours differ.
inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1f24; --soft: #59636e; --rule: #d5dae0; --panel: #f5f7f9;
  --c0: #0072b2; --c1: #d55e00; --c2: #008f68; --c3: #b4588f;
  --c4: #c98a00; --c5: #3d9bd1; --c6: #7a5bb5; --c7: #8a6f4a;
  --c8: #8b949e; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --ink: #e6eaef; --soft: #9aa5b1; --rule: #333b45;
  --panel: #1c2229; --c0: #4aa8e0; --c1: #f08a3c; --c2: #2fbf95; --c3: #d98bb9; --c4: #e8b53a; --c5: #86c5ee;
  --c6: #a68be0; --c7: #bfa27a; --c8: #7d8793; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1rem 3rem; max-width: 60rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
p { margin: .5rem 0 1rem; }
nav { margin: 1rem 0; font-size: .9rem; } nav ul { list-style: none; margin: 0; padding: 0; }
nav > ul { display: flex; flex-wrap: wrap; gap: .15rem 1.25rem; } nav ul ul { padding-left: .9rem; display: flex;
  flex-wrap: wrap; gap: 0 1rem; } nav li { margin: .1rem 0; } nav > ul > li:has(ul) { flex-basis: 100%; }
a { color: var(--c0); text-underline-offset: .15em; } nav a { text-decoration: none; }
.note { color: var(--soft); font-size: .85rem; margin: .25rem 0 0; }
.scroll { overflow-x: auto; margin: .5rem 0 1.25rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
table.full { width: 100%; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap;
  overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child, .text th, .text td { text-align: left; }
th:last-child, td:last-child { padding-right: 0; }
.text td { vertical-align: top; overflow-wrap: break-word; }
.text td:last-child { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
.pairs td { white-space: normal; overflow-wrap: break-word; }
.tiles { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: .6rem; margin: 1rem 0; }
.tiles div { background: var(--panel); border-radius: 6px; padding: .6rem .75rem .7rem; }
.tiles dt, .tiles dd { margin: 0; font-size: .8rem; line-height: 1.4; color: var(--soft); }
.tiles .value { font-size: 1.7rem; line-height: 1.3; color: var(--ink); font-variant-numeric: tabular-nums; }
@media (max-width: 43rem) { .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media (max-width: 30rem) { .tiles div { padding: .5rem .6rem; } .tiles .value { font-size: 1.15rem; } }
li { margin: .4rem 0; } ol { padding-left: 1.5rem; margin: .5rem 0 1rem; }
@media (max-width: 30rem) {
  table { font-size: .8rem; } th, td { padding-right: .6rem; } .tight { width: 100%; }
  .tight th, .tight td { padding-right: .5rem; } .tight td:first-child { white-space: normal; }
  .tight th:last-child, .tight td:last-child { padding-right: 0; } th { white-space: normal; vertical-align: bottom; }
  .text td { white-space: normal; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; } .cards tr:first-child { display: none; }
  .cards { width: 100%; } .cards tr { padding: .5rem 0; border-bottom: 1px solid var(--rule); }
  .cards td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0; }
  .cards td { white-space: normal; overflow-wrap: anywhere; min-width: 0; text-align: right; }
  .cards td:first-child { font-weight: 600; }
  .cards td[data-name]::before { content: attr(data-name); color: var(--soft); white-space: nowrap; }
  .cards:not(.text) tr:not(:first-child) { display: grid; grid-template-columns: 1fr 1fr; column-gap: 1.25rem; }
  .cards:not(.text) td:first-child { grid-column: 1 / -1; } .cards:not(.text) td { white-space: nowrap; }
  .cards:not(.text) td::before { white-space: normal; text-align: left; }
}
td.bar { width: 40%; min-width: 5rem; padding-right: 0; }
td.bar i { display: block; height: .75rem; min-width: 1px; border-radius: 2px; }
figure { margin: 1rem 0 1.75rem; }
figcaption { font-weight: 600; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .25rem 0 .5rem; padding: 0;
  font-size: .85rem; color: var(--soft); }
.legend li { margin: .1rem 0; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; border-radius: 2px;
  vertical-align: -.05rem; }
.legend .dash { height: .25rem; vertical-align: .2rem; clip-path: polygon(0 0, 40% 0, 40% 100%, 60% 100%, 60% 0, 100% 0,
  100% 100%, 0 100%); }
.row { display: flex; justify-content: space-between; gap: 1rem; margin-top: .5rem; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
.stack { display: flex; height: 1rem; } .stack.whole { height: 1.75rem; }
.stack i { border-radius: 1px; } .stack i:hover { opacity: .6; }
svg { width: 100%; height: auto; font: 12px system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
svg.narrow { display: none; max-width: 30rem; }
@media (max-width: 43rem) { svg.wide { display: none; } svg.narrow { display: block; } }
svg text { fill: var(--soft); } svg .end { text-anchor: end; } svg .mid { text-anchor: middle; }
svg path { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
svg .dash { stroke-dasharray: 3.2 5.8; }
svg .pale { opacity: .28; stroke-width: 1; }
svg .at { stroke: var(--soft); stroke-dasharray: 1 3; stroke-linecap: butt; }
.axes { font-size: .85rem; color: var(--soft); } .axes label { margin-left: .6rem; cursor: pointer; }
.axes ~ .x1, .axes ~ .x2 { display: none; }
figure:has(.axes .x1:checked) > .x0, figure:has(.axes .x2:checked) > .x0 { display: none; }
figure:has(.axes .x1:checked) > .x1, figure:has(.axes .x2:checked) > .x2 { display: block; }
@media print { .axes { display: none; } }
svg .grid { stroke: var(--rule); } svg .base { stroke: var(--soft); }
svg .h { fill: transparent; } svg .mark { display: none; fill: var(--soft); fill-opacity: .15; }
pre { background: var(--panel); padding: .75rem 1rem; border-radius: 6px; overflow-x: auto; white-space: pre-wrap;
  font: .85rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; margin: .5rem 0 1rem; }
summary { cursor: pointer; } .folded { list-style: none; padding: 0; }
.folded summary { padding-left: 1.1rem; text-indent: -1.1rem; } .folded p { margin: .25rem 0 .75rem 1.1rem; }
#tip { position: fixed; display: none; pointer-events: none; white-space: pre; padding: .4rem .6rem; font-size: .8rem;
  line-height: 1.4; background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; z-index: 1; }
@media print { body { max-width: none; } }
)css";

// Shows values at the pointer without delay, also on touch screens: the values that a chart holds as data, and the
// tooltips of other drawings.
inline constexpr const char* kReportScript = R"js(
const tip = document.body.appendChild(document.createElement('div'));
tip.id = 'tip';
const show = (e, text) => {
  tip.textContent = text;
  tip.style.display = 'block';
  const x = e.clientX + 14, right = document.documentElement.clientWidth - tip.offsetWidth - 4;
  tip.style.left = Math.max(4, x > right ? e.clientX - tip.offsetWidth - 14 : x) + 'px';
  tip.style.top = Math.max(4, Math.min(e.clientY + 14, window.innerHeight - tip.offsetHeight - 4)) + 'px';
};
const at = (area, moved, left) => {
  area.addEventListener('pointermove', moved);
  area.addEventListener('pointerdown', moved);
  area.addEventListener('pointerleave', () => { tip.style.display = 'none'; if (left) left(); });
};
const prepare = root => {
  for (const area of root.querySelectorAll('svg .h')) {
    const names = area.dataset.names.split('\n'), edges = area.dataset.edges.split(' ').map(Number);
    const rows = area.dataset.values.split(';');
    const mark = area.parentNode.insertBefore(area.cloneNode(), area);
    mark.setAttribute('class', 'mark');
    at(area, e => {
      const box = area.getBoundingClientRect();
      const x = edges[0] + (e.clientX - box.left) / box.width * (edges[edges.length - 1] - edges[0]);
      let i = 0;
      while (i + 1 < rows.length && edges[i + 1] <= x) ++i;
      const values = rows[i].split('|');
      mark.setAttribute('x', edges[i]);
      mark.setAttribute('width', Math.max(0.5, edges[i + 1] - edges[i]));
      mark.style.display = 'block';
      show(e, names.map((name, n) => n === 0 ? name + ' ' + values[0] :
        values[n] ? name + ': ' + values[n] + area.dataset.unit : '').filter(Boolean).join('\n'));
    }, () => { mark.style.display = 'none'; });
  }
  for (const area of root.querySelectorAll('svg.arena g > rect, .stack i')) {
    const title = area.querySelector('title'), text = title ? title.textContent : area.title;
    if (!text) continue;
    if (title) title.remove(); else area.removeAttribute('title');
    at(area, e => show(e, text));
  }
};
prepare(document);
)js";

// Repeatedly loads the script at the URL `live`, which also works for pages on the file system, and shows its content
// if it is new. Keeps opened details, chosen axes and the scroll position.
inline constexpr const char* kLiveScript = R"js(
const main = document.querySelector('main'), reading = document.querySelector('.reading');
let last = null, readAt = null, pause = 1, changed = 0;
const age = () => {
  if (readAt === null) return;
  const at = new Date(1000 * readAt).toISOString().replace('T', ' ').slice(0, 19) + ' UTC';
  reading.textContent = pause === null ? 'This is the state of ' + at + ', when report --follow ended.' :
    Date.now() - changed < 1000 * Math.max(60, 2 * pause) ? 'Read at ' + at + '.' :
    'This is the state of ' + at + '. Nothing has been read since: report --follow may have been killed.';
};
setInterval(age, 5000);
window.ltrainShow = (html, at, nextInSeconds) => {
  if (at !== readAt) changed = Date.now();  // by the clock of the reader alone
  readAt = at, pause = nextInSeconds;
  age();
  if (html === last) return;
  last = html;
  const key = box => box.closest('figure').querySelector('figcaption').textContent + box.className;
  const open = new Set([...main.querySelectorAll('details[open]')].map(box => box.dataset.key));
  const chosen = [...main.querySelectorAll('.axes input:checked')].map(key);
  const x = window.scrollX, y = window.scrollY;
  const next = document.createElement('main');
  next.innerHTML = html;
  for (const box of next.querySelectorAll('details')) box.open = open.has(box.dataset.key);
  for (const box of next.querySelectorAll('.axes input')) if (chosen.includes(key(box))) box.checked = true;
  main.replaceChildren(...next.childNodes);
  tip.style.display = 'none';
  prepare(main);
  window.scrollTo(x, y);
};
const load = () => {
  const script = document.createElement('script');
  script.src = live + '?' + Date.now();
  script.onload = script.onerror = () => { script.remove(); setTimeout(load, 1000); };
  document.head.append(script);
};
load();
)js";

}  // namespace lt::report
