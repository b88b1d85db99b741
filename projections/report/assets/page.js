"use strict";
/* The page of one conversation.

1. What the log says becomes text nodes, never markup. Characters that hide or turn text are shown
   as escapes.
2. The version is the one thing that is chosen: rows, details, prompt, state and address follow it.
3. Only the rows in sight are in the document.
4. Blocks of events are unpacked when they are needed; all of them for the first search.
*/
{
const ROW_HEIGHT = 28;
const MARGIN_ROWS = 12;
const MAX_FOUND_VALUES = 4000;
const SHOWN_MESSAGES = 120;
const ROW = ["kind", "versions", "at", "label", "text", "outcome", "status", "turn", "steps",
  "waited", "ran", "attempts", "callId", "fingerprint", "marks", "errors"];
const PROMPT = ["version", "until", "others", "kept", "added", "repairs"];

const byId = (id) => document.getElementById(id);
const overview = JSON.parse(byId("data-overview").textContent);

// Text

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

function textNodes(text) {
  const nodes = [];
  let done = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > done) nodes.push(text.slice(done, match.index));
    nodes.push(element("span", {class: "escaped"}, `\\u${match[0].codePointAt(0).toString(16).padStart(4, "0")}`));
    done = match.index + match[0].length;
  }
  nodes.push(text.slice(done));
  return nodes;
}

function plainText(text) {
  return text.replace(HIDDEN, (char) => `\\u${char.codePointAt(0).toString(16).padStart(4, "0")}`);
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat());
  return made;
}

const said = (text) => textNodes(String(text));

function duration(microseconds) {
  const units = [["d", 86400e6], ["h", 3600e6], ["m", 60e6], ["s", 1e6], ["ms", 1e3], ["us", 1]];
  const [unit, size] = units.find(([, each]) => microseconds >= each) ?? ["us", 1];
  const value = microseconds / size;
  return `${size === 1 ? value : value.toPrecision(Math.max(3, String(Math.trunc(value)).length))} ${unit}`;
}

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function utc(microseconds) {
  const date = new Date(microseconds / 1000);
  return Number.isNaN(date.getTime()) ? String(microseconds) : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

// Data

async function unpacked(name) {
  const packed = Uint8Array.from(atob(byId(`data-${name}`).textContent), (char) => char.charCodeAt(0));
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  writer.write(packed);
  writer.close();
  return new Response(stream.readable).text();
}

const unpackedOnce = new Map();
function block(name) {
  if (!unpackedOnce.has(name)) unpackedOnce.set(name, unpacked(name));
  return unpackedOnce.get(name);
}

const named = (names, values) => Object.fromEntries(names.map((name, place) => [name, values[place]]));

/** Return the place of the last of `sorted` that is not greater than `value`; -1 if there is none. */
function lastUpTo(sorted, value, key = (each) => each) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(sorted[middle]) <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

async function eventsAt(versions) {
  const found = [];
  for (const version of versions) {
    const number = Math.max(lastUpTo(overview.blocks, version), 0);
    const text = await block(`events-${number}`);
    const mark = `{"version":${version},`;
    let start = text.startsWith(mark) ? 0 : text.indexOf(`\n${mark}`) + 1;
    if (start === 0 && !text.startsWith(mark)) continue;
    const end = text.indexOf("\n", start);
    found.push(JSON.parse(text.slice(start, end < 0 ? undefined : end)));
  }
  return found;
}

const promptBooks = new Map();
async function promptBook(provider) {
  if (!promptBooks.has(provider)) {
    const book = JSON.parse(await block(`prompts-${provider}`));
    book.prompts = book.prompts.map((values) => named(PROMPT, values));
    promptBooks.set(provider, book);
  }
  return promptBooks.get(provider);
}

/** Return the places of a prompt's messages, which are told as changes to the prompt before. */
function placesOf(book, number) {
  let first = number;
  while (first > 0 && book.prompts[first].kept > 0) first--;
  let places = [];
  for (let each = first; each <= number; each++) {
    places = places.slice(0, book.prompts[each].kept).concat(book.prompts[each].added);
  }
  return places;
}

// What is chosen

const chosen = {version: overview.opensAt, panel: "event", provider: overview.providers[0]};
let rows = [];
let rowOfVersion = new Map();
let shownRows = [];
let errorVersions = [];

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const version = Number(asked.get("v"));
  if (rowOfVersion.has(version)) chosen.version = version;
  if (["event", "prompt", "state", "statistics"].includes(asked.get("panel"))) chosen.panel = asked.get("panel");
  if (overview.providers.includes(asked.get("provider"))) chosen.provider = asked.get("provider");
}

function writeAddress() {
  const address = new URLSearchParams({v: chosen.version, panel: chosen.panel, provider: chosen.provider});
  history.replaceState(null, "", `#${address}`);
}

function choose(changes, {scroll = true} = {}) {
  Object.assign(chosen, changes);
  writeAddress();
  byId("version").value = versions.indexOf(chosen.version) + 1;
  const row = rows[rowOfVersion.get(chosen.version)];
  byId("at").textContent = `version ${chosen.version.toLocaleString("en")} of ${overview.last.toLocaleString("en")}`;
  byId("version").setAttribute("aria-valuetext", `version ${chosen.version}: ${rowText(row)}`);
  byId("all-rows").style.height = `${shownRows.length * ROW_HEIGHT}px`;
  if (scroll) scrollTo(row);
  drawRows();
  drawPanels();
}

let versions = [];

// Rows

const longest = () => rows.reduce((most, row) => Math.max(most, row.waited + row.ran), 1);
let longestTime = 1;

function rowText(row) {
  const outcome = row.outcome ? ` - ${row.outcome}` : "";
  const marks = row.marks.length ? `, ${row.marks.join(", ")}` : "";
  return plainText(`${row.label} ${row.text}${outcome} ${row.status}${marks}`);
}

function bar(row) {
  const all = row.waited + row.ran;
  if (!all) return element("span", {class: "took"});
  const width = 100 * Math.log1p(all / 1000) / Math.log1p(longestTime / 1000);
  const made = element("span", {class: "bar took", title: `waited ${duration(row.waited)}, ran ${duration(row.ran)}`});
  for (const name of ["waited", "ran"]) {
    if (!row[name]) continue;
    const part = element("i", {class: name});
    part.style.width = `${Math.max(width * row[name] / all, 3)}%`;
    made.append(part);
  }
  return made;
}

function drawRow(place, number) {
  const row = rows[place];
  const made = element("div", {
    class: ["row", row.kind, ...row.marks.map((mark) => mark.replaceAll(" ", "-"))].join(" "),
    id: `row-${place}`, role: "option", "aria-selected": String(place === rowOfVersion.get(chosen.version)),
    "aria-setsize": shownRows.length, "aria-posinset": number + 1, title: rowText(row).trim(),
  },
  element("span", {class: "number"}, String(row.versions[0])),
  element("span", {class: "label"}, said(row.label)),
  element("span", {class: "text"}, said(row.outcome ? `${row.text} → ${row.outcome}` : row.text)),
  bar(row),
  element("span", {class: `status ${row.status}`}, row.attempts > 1 ? `${row.status} (${row.attempts})` : row.status));
  made.style.top = `${number * ROW_HEIGHT}px`;
  made.addEventListener("click", () => choose({version: row.versions[0]}, {scroll: false}));
  return made;
}

function drawRows() {
  const box = byId("rows");
  const first = Math.max(Math.floor(box.scrollTop / ROW_HEIGHT) - MARGIN_ROWS, 0);
  const last = Math.min(first + Math.ceil(box.clientHeight / ROW_HEIGHT) + 2 * MARGIN_ROWS, shownRows.length);
  const made = [];
  for (let number = first; number < last; number++) made.push(drawRow(shownRows[number], number));
  byId("all-rows").replaceChildren(...made);
  const place = rowOfVersion.get(chosen.version);
  if (document.getElementById(`row-${place}`)) box.setAttribute("aria-activedescendant", `row-${place}`);
  else box.removeAttribute("aria-activedescendant");
}

function scrollTo(row) {
  const box = byId("rows");
  const number = shownRows.indexOf(rows.indexOf(row));
  if (number < 0) return;
  const top = number * ROW_HEIGHT;
  if (top < box.scrollTop || top + ROW_HEIGHT > box.scrollTop + box.clientHeight) {
    box.scrollTop = top - Math.floor(box.clientHeight / 3);
  }
}

function moveBy(count) {
  const at = shownRows.indexOf(rowOfVersion.get(chosen.version));
  const number = at < 0
    ? Math.max(lastUpTo(shownRows, chosen.version, (place) => rows[place].versions[0]), 0)
    : Math.min(Math.max(at + count, 0), shownRows.length - 1);
  if (shownRows.length) choose({version: rows[shownRows[number]].versions[0]});
}

function moveToError(direction) {
  const at = lastUpTo(errorVersions, chosen.version);
  const isOne = errorVersions[at] === chosen.version;
  const next = errorVersions[direction > 0 ? at + 1 : isOne ? at - 1 : at];
  if (next !== undefined) choose({version: next});
}

// Finding

/** Yield the version of each event that has the text in a value, from all blocks. */
async function* versionsWith(text) {
  const wanted = JSON.stringify(text).slice(1, -1).toLowerCase();
  const members = new Set(overview.members.map((name) => name.toLowerCase()));
  for (let number = 0; number < overview.blocks.length; number++) {
    const lines = await lowered(number);
    let at = lines.indexOf(wanted);
    while (at >= 0) {
      const end = lines.indexOf("\n", at);
      if (!isMemberName(lines, at, wanted, members)) {
        const start = lines.lastIndexOf("\n", at) + 1;
        yield Number(/^\{"version":(\d+)/.exec(lines.slice(start, start + 40))?.[1]);
        if (end < 0) break;
        at = lines.indexOf(wanted, end);
      } else {
        at = lines.indexOf(wanted, at + 1);
      }
    }
  }
}

/** Return whether a place is within the name of a member that every event has. */
function isMemberName(lines, at, wanted, members) {
  const end = lines.indexOf('"', at + wanted.length);
  if (wanted.includes('"') || end < 0 || lines[end + 1] !== ":") return false;
  return members.has(lines.slice(lines.lastIndexOf('"', at) + 1, end));
}

const loweredOnce = new Map();
async function lowered(number) {
  if (!loweredOnce.has(number)) loweredOnce.set(number, (await block(`events-${number}`)).toLowerCase());
  return loweredOnce.get(number);
}

let search = 0;
async function find() {
  const mine = ++search;
  const text = byId("query").value.trim();
  const only = byId("only").value;
  let places = rows.keys();
  if (text) {
    const found = new Set();
    for await (const version of versionsWith(text)) {
      if (mine !== search) return;
      if (rowOfVersion.has(version)) found.add(rowOfVersion.get(version));
    }
    const lower = text.toLowerCase();
    for (const [place, row] of rows.entries()) if (row.label.toLowerCase().includes(lower)) found.add(place);
    places = [...found].sort((one, other) => one - other);
  }
  if (mine !== search) return;
  shownRows = [...places].filter((place) => only === "all" || rows[place].kind === only || rows[place].marks.includes(only));
  const isAll = shownRows.length === rows.length;
  byId("found").textContent = isAll ? "" : `${shownRows.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  byId("rows").scrollTop = 0;
  if (!shownRows.includes(rowOfVersion.get(chosen.version)) && shownRows.length) choose({version: rows[shownRows[0]].versions[0]});
  else choose({});
}

// Details

function value(data) {
  if (typeof data === "string") return data.includes("\n") || data.length > 80 ? element("pre", {tabindex: "0"}, said(data)) : element("span", {}, said(data));
  if (data === null || typeof data !== "object") return element("code", {}, String(data));
  return element("pre", {tabindex: "0"}, said(JSON.stringify(data, null, 2)));
}

function members(data) {
  const list = element("dl", {class: "members"});
  for (const [name, each] of Object.entries(data)) {
    list.append(element("dt", {}, said(name)), element("dd", {}, value(each)));
  }
  return list;
}

/** Return the members of an event that its heading does not say, the call's own first. */
function shownMembers({tag, event}) {
  const {call, call_id, response, failure, parts, ...others} = event;
  if (call) return {arguments: call.raw ?? call.arguments, ...others};
  if (response) return {result: response.result, ...others};
  if (failure) return {...failure, ...others};
  if (parts) return {...spoken(parts), ...others};
  return tag === "running" ? {arguments: event.arguments, ...others} : others;
}

function spoken(parts) {
  const texts = parts.filter((part) => part.type === "text").map((part) => part.text);
  const rest = parts.filter((part) => part.type !== "text");
  return {...(texts.length ? {text: texts.join("\n\n")} : {}), ...(rest.length ? {parts: rest} : {})};
}

let drawn = 0;
async function drawEvent() {
  const mine = ++drawn;
  const row = rows[rowOfVersion.get(chosen.version)];
  const events = await eventsAt(row.versions);
  if (mine !== drawn) return;
  const facts = [row.kind, row.turn !== null && `turn ${row.turn}`, row.callId, row.status,
    row.attempts && plural(row.attempts, "attempt"),
    row.waited && `waited ${duration(row.waited)}`, row.ran && `ran ${duration(row.ran)}`,
    row.fingerprint && `fingerprint ${row.fingerprint}`, ...row.marks].filter(Boolean);
  const parts = [element("h3", {}, said(row.label)), element("p", {class: "facts"}, said(facts.join(" · ")))];
  if (row.outcome && row.marks.includes("error") && !row.marks.includes("recovered")) parts.push(element("p", {class: "failed"}, said(row.outcome)));
  const copy = element("button", {type: "button"}, "Copy as Markdown");
  copy.addEventListener("click", () => copyText(rowMarkdown(row, events)));
  parts.push(copy);
  let before = null;
  for (const event of events) {
    const later = before === null ? ` · ${utc(event.at)}` : event.at > before ? ` · + ${duration(event.at - before)}` : "";
    parts.push(element("div", {class: event.version === chosen.version ? "step at" : "step"},
      element("h4", {}, said(`version ${event.version} · ${event.tag}${later}`)), members(shownMembers(event))));
    before = event.at;
  }
  byId("panel-event").replaceChildren(...parts);
}

function drawState() {
  const states = new Map();
  for (const row of rows) {
    if (row.kind !== "call" || row.versions[0] > chosen.version) continue;
    const step = row.steps[lastUpTo(row.steps, chosen.version, (each) => each[0])];
    if (step) states.set(row, step[1]);
  }
  const counts = new Map();
  for (const status of states.values()) counts.set(status, (counts.get(status) ?? 0) + 1);
  const summary = [...counts].map(([status, count]) => `${count.toLocaleString("en")} ${status}`).join(", ") || "no calls yet";
  const open = [...states].filter(([, status]) => ["Pending", "Approved", "Running"].includes(status));
  const parts = [element("h3", {}, `After version ${chosen.version}`), element("p", {}, summary),
    element("h3", {}, open.length ? "Calls without an end" : "Every call has its end")];
  const list = element("ul");
  for (const [row, status] of open.slice(-SHOWN_MESSAGES)) {
    const link = element("a", {href: `#v=${row.versions[0]}`}, said(`${row.label} ${row.text}`));
    list.append(element("li", {}, link, ` ${status} since version ${row.steps.findLast((step) => step[0] <= chosen.version)[0]}`));
  }
  byId("panel-state").replaceChildren(...parts, list);
}

// The prompt

let prompted = 0;
async function drawPrompt() {
  const mine = ++prompted;
  const book = await promptBook(chosen.provider);
  if (mine !== prompted) return;
  byId("provider").value = chosen.provider;
  byId("prompt").dataset.version = chosen.version;
  const number = lastUpTo(book.prompts, chosen.version, (each) => each.version);
  const prompt = book.prompts[number];
  const name = overview.conversation;
  const command = `toolledger replay ${quoted(name)} --until ${chosen.version} --prompt ${chosen.provider}`;
  if (!prompt || prompt.until < chosen.version) {
    const near = book.prompts.map((each) => each.version).sort((one, other) => Math.abs(one - chosen.version) - Math.abs(other - chosen.version)).slice(0, 3);
    const links = near.flatMap((version) => [element("a", {href: `#v=${version}&panel=prompt`}, `version ${version}`), " "]);
    byId("prompt").replaceChildren(element("p", {class: "notice"}, said("This page does not hold the prompt at this version: the log is too long to hold every one. "), "Nearest: ", ...links),
      element("pre", {tabindex: "0"}, said(command)));
    byId("copy-prompt").hidden = true;
    return;
  }
  byId("copy-prompt").hidden = false;
  const places = placesOf(book, number);
  const before = number > 0 ? placesOf(book, number - 1).length : 0;
  const parts = [element("p", {class: "facts"}, promptSummary(places.length, prompt, before, number))];
  const repairs = new Map();
  for (const repair of prompt.repairs) {
    const at = repair.call_id === null ? -1 : places.findLastIndex((place) => book.messages[place].includes(JSON.stringify(repair.call_id)));
    repairs.set(at, [...(repairs.get(at) ?? []), repair]);
  }
  for (const repair of repairs.get(-1) ?? []) parts.push(repairNote(repair));
  if (prompt.others) parts.push(element("div", {class: "sent"}, element("h4", {}, "beside the messages"), messageValue(prompt.others)));
  const first = Math.max(places.length - SHOWN_MESSAGES, 0);
  if (first > 0) {
    const earlier = element("button", {type: "button"}, `Show the ${first.toLocaleString("en")} messages before`);
    earlier.addEventListener("click", () => earlier.replaceWith(...places.slice(0, first).map((_, at) => message(book, places, at, prompt, number, repairs))));
    parts.push(earlier);
  }
  for (let at = first; at < places.length; at++) parts.push(message(book, places, at, prompt, number, repairs));
  byId("prompt").replaceChildren(...parts);
  byId("panel-prompt").scrollTop = byId("panel-prompt").scrollHeight; // the newest messages
}

function promptSummary(count, prompt, before, number) {
  const same = prompt.until > prompt.version ? `, the same up to version ${prompt.until}` : "";
  const changed = number > 0 ? `; it begins with ${prompt.kept.toLocaleString("en")} of the ${plural(before, "message")} of the prompt before` : "";
  return `What the model sees after version ${prompt.version}${same}: ${plural(count, "message")}${changed}`;
}

function message(book, places, at, prompt, number, repairs) {
  const text = book.messages[places[at]];
  const isNew = number > 0 && at >= prompt.kept;
  const made = element("div", {class: isNew ? "sent new" : "sent"}, element("h4", {}, `message ${at + 1}${isNew ? ", new" : ""}`), messageValue(text));
  for (const repair of repairs.get(at) ?? []) made.append(repairNote(repair));
  return made;
}

/** Return the value of JSON, or the text itself: one that was cut is no JSON any more. */
function jsonOrText(text) {
  try { return JSON.parse(text); } catch { return text; }
}

function messageValue(text) {
  const data = jsonOrText(text);
  return data !== null && typeof data === "object" && !Array.isArray(data) ? members(data) : value(data);
}

function repairNote(repair) {
  const of = repair.call_id ? ` ${repair.call_id}` : "";
  const note = element("p", {class: "repair"}, element("strong", {}, said(repair.what)), said(`${of}: ${repair.why} [${repair.rule}]`));
  for (const version of (repair.versions ?? []).slice(0, 5)) note.append(" ", element("a", {href: `#v=${version}`}, `version ${version}`));
  return note;
}

async function promptJson() {
  const book = await promptBook(chosen.provider);
  const number = lastUpTo(book.prompts, chosen.version, (each) => each.version);
  const messages = placesOf(book, number).map((place) => jsonOrText(book.messages[place]));
  const others = book.prompts[number].others;
  return JSON.stringify({...(others ? jsonOrText(others) : {}), [book.list_key]: messages}, null, 2);
}

// Charts

function drawCharts() {
  const calls = rows.filter((row) => row.kind === "call");
  const charts = [];
  if (calls.some((row) => row.waited + row.ran)) charts.push(["Seconds of each call, by version", [
    calls.map((row) => row.versions[0]), calls.map((row) => row.ran / 1e6), calls.map((row) => row.waited / 1e6)], ["ran", "waited"]]);
  if (errorVersions.length) charts.push(["Errors so far, by version", [
    errorVersions, errorVersions.map((_, place) => place + 1)], ["errors"]]);
  if (overview.tokens.length) charts.push(["Tokens of each response, by version",
    [0, 1, 2, 3].map((column) => overview.tokens.map((each) => each[column])), ["input", "cached", "output"]]);
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const box = byId("charts");
  box.replaceChildren();
  for (const [title, data, names] of charts) {
    const most = Math.max(...data.slice(1).map((values) => values.reduce((one, other) => Math.max(one, other), 0)));
    const holder = element("div", {class: "chart", role: "img", "aria-label": `${title}: ${data[0].length} points, at most ${Number(most.toPrecision(3))}`});
    box.append(holder);
    const pen = getComputedStyle(document.body).color;
    new uPlot({
      title, width: Math.max(byId("panel-statistics").clientWidth - 24, 240), height: 170,
      scales: {x: {time: false}},
      axes: [{stroke: pen, grid: {width: 0.3}}, {stroke: pen, grid: {width: 0.3}}],
      series: [{label: "version"}, ...names.map((label, place) => ({label, stroke: pen, width: 1 + place, dash: place ? [4 / place, 4] : [], points: {show: data[0].length < 200}}))],
    }, data, holder);
  }
}

// Copying

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    byId("found").textContent = "copied";
  } catch {
    const dialog = byId("clipboard");
    dialog.querySelector("textarea").value = text;
    dialog.showModal();
    dialog.querySelector("textarea").select();
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function fenced(text) {
  const longestRun = Math.max(2, ...[...text.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = "`".repeat(longestRun + 1);
  return `${fence}\n${text}\n${fence}`;
}

function rowMarkdown(row, events) {
  const parts = [`### ${plainText(row.label)}, version ${row.versions[0]} of ${plainText(overview.conversation)}`];
  for (const event of events) {
    parts.push(`version ${event.version}, ${event.tag}:`, fenced(plainText(JSON.stringify(shownMembers(event), null, 2))));
  }
  return parts.join("\n\n") + "\n";
}

// Panels

const PANELS = ["event", "prompt", "state", "statistics"];

function drawPanels() {
  for (const name of PANELS) {
    const isShown = name === chosen.panel;
    byId(`panel-${name}`).hidden = !isShown;
    byId(`tab-${name}`).setAttribute("aria-selected", String(isShown));
    byId(`tab-${name}`).tabIndex = isShown ? 0 : -1;
  }
  ({event: drawEvent, prompt: drawPrompt, state: drawState, statistics: drawCharts})[chosen.panel]();
}

function onTabKey(event) {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!step) return;
  const name = PANELS.at((PANELS.indexOf(chosen.panel) + step) % PANELS.length);
  choose({panel: name}, {scroll: false});
  byId(`tab-${name}`).focus();
  event.preventDefault();
}

function onListKey(event) {
  const page = Math.max(Math.floor(byId("rows").clientHeight / ROW_HEIGHT) - 1, 1);
  const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity, j: 1, k: -1};
  const step = steps[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  moveBy(step);
  event.preventDefault();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input[type=search], select, textarea")) return;
  if (event.key === "/") { byId("query").focus(); event.preventDefault(); }
  if (event.key === "[") moveToError(-1);
  if (event.key === "]") moveToError(1);
}

const THEMES = ["system", "light", "dark"];
function changeTheme() {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  byId("theme").textContent = `Theme: ${next}`;
  if (chosen.panel === "statistics") drawCharts();
}

function listen() {
  byId("rows").addEventListener("scroll", () => requestAnimationFrame(drawRows), {passive: true});
  byId("rows").addEventListener("keydown", onListKey);
  byId("version").addEventListener("input", (event) => choose({version: versions[event.target.value - 1]}));
  byId("previous").addEventListener("click", () => moveToError(-1));
  byId("next").addEventListener("click", () => moveToError(1));
  byId("query").addEventListener("input", find);
  byId("query").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    byId("query").value = "";
    find();
    byId("rows").focus();
  });
  byId("only").addEventListener("change", find);
  byId("find").addEventListener("submit", (event) => { event.preventDefault(); byId("rows").focus(); });
  byId("provider").addEventListener("change", (event) => choose({provider: event.target.value}, {scroll: false}));
  byId("copy-why").addEventListener("click", () => copyText(overview.markdown));
  byId("copy-prompt").addEventListener("click", async () => copyText(await promptJson()));
  byId("theme").addEventListener("click", changeTheme);
  for (const name of PANELS) {
    byId(`tab-${name}`).addEventListener("click", () => choose({panel: name}, {scroll: false}));
    byId(`tab-${name}`).addEventListener("keydown", onTabKey);
  }
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => { readAddress(); choose({}); });
  window.addEventListener("resize", () => { drawRows(); if (chosen.panel === "statistics") drawCharts(); });
}

async function begin() {
  rows = JSON.parse(await block("rows")).map((values) => named(ROW, values));
  for (const [place, row] of rows.entries()) for (const version of row.versions) rowOfVersion.set(version, place);
  versions = [...rowOfVersion.keys()].sort((one, other) => one - other);
  errorVersions = rows.flatMap((row) => row.errors).sort((one, other) => one - other);
  longestTime = longest();
  shownRows = [...rows.keys()];
  byId("version").max = versions.length;
  byId("provider").append(...overview.providers.map((name) => element("option", {value: name}, name)));
  listen();
  readAddress();
  choose({});
  document.documentElement.dataset.ready = "yes";
  for (let number = 0; number < overview.blocks.length; number++) await lowered(number); // for the first search
  document.documentElement.dataset.searchable = "yes";
}

begin();
}
