// Puts the page together: filters, views, theme.

const by = (id) => document.getElementById(id);
const panel = new Panel(by("panel"));
const grid = new Grid(by("matrix"), panel);
const graph = new Graph(by("graph"), panel);

/** Shows what the filters leave. */
function refresh() {
  const port = by("port").value.trim();
  const number = /^[0-9]+$/.test(port) ? Number(port) : null;
  by("port").setAttribute("aria-invalid", port !== "" && (number === null || number < 1 || number > 65535));
  const wanted = new Wanted(number, by("protocol").value);
  const [from, to] = [matcher(by("from").value), matcher(by("to").value)];
  const [opening, accepting] = by("busy").checked ? busyLines(from, to, wanted) : [null, null];
  const kept = (busy) => (line) => busy === null || busy.has(line);
  const rows = visibleLines(from, kept(opening));
  const columns = visibleLines(to, kept(accepting));
  grid.show(rows, columns, wanted);
  graph.show(from, to, wanted);
  const ends = (lines) => lines.filter((line) => !isHeading(line)).length;
  by("status").textContent = `${ends(rows)} rows, ${ends(columns)} columns`;
}

/** The lines that may open some connection to the other side, and those that may accept one. */
function busyLines(fromMatches, toMatches, wanted) {
  const [opening, accepting] = [new Set(), new Set()];
  const ends = everyLine.filter((line) => line.depth > 0);
  const destinations = ends.filter(toMatches);
  for (const from of ends.filter(fromMatches)) {
    for (const to of destinations) {
      if (opening.has(from) && accepting.has(to)) continue;
      if (wanted.state(from, to) > State.NONE) {
        opening.add(from);
        accepting.add(to);
      }
    }
  }
  return [opening, accepting];
}

/** Folds or unfolds every namespace and workload. */
function foldAll(open) {
  for (const line of everyLine) line.open = open;
  refresh();
}

function view(name) {
  for (const one of ["matrix", "graph"]) {
    by(one).hidden = one !== name;
    const tab = by(`tab-${one}`);
    tab.setAttribute("aria-selected", one === name);
    tab.tabIndex = one === name ? 0 : -1;
  }
  document.body.dataset.view = name;
  if (name === "graph") graph.draw();
}

const THEMES = { auto: "light", light: "dark", dark: "auto" };

function theme(name) {
  document.documentElement.dataset.theme = name;
  by("theme").textContent = `Theme: ${name}`;
}

function summary() {
  const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
  const namespaces = map.sections.filter((section) => section.kind === "namespace").length;
  const pods = map.endpoints.filter(({ kind }) => kind === "pod" || kind === "workload").length;
  by("summary").textContent = `${plural(pods, "pod or workload", "pods and workloads")} in ${plural(namespaces, "namespace", "namespaces")}, ${plural(map.endpoints.length - pods, "other end", "other ends")}`;
}

/** What the address of the page keeps, so that a link shows the same again. */
function remember() {
  const kept = new URLSearchParams();
  const put = (key, value, usual) => value !== usual && kept.set(key, value);
  put("view", document.body.dataset.view, "matrix");
  put("theme", document.documentElement.dataset.theme, "auto");
  for (const id of ["from", "to", "port", "protocol"]) put(id, by(id).value.trim(), "");
  put("busy", by("busy").checked ? "yes" : "", "");
  const { from, to } = panel.shown ?? {};
  if (from && to) {
    kept.set("source", from.title);
    kept.set("destination", to.title);
  }
  const text = kept.toString();
  if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : "#");
}

/** Shows what the address of the page asks for. */
function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const id of ["from", "to", "port", "protocol"]) by(id).value = kept.get(id) ?? "";
  by("busy").checked = kept.has("busy");
  theme(kept.get("theme") in THEMES ? kept.get("theme") : "auto");
  const titled = (title) => everyLine.find((line) => line.title === title);
  const [from, to] = [titled(kept.get("source")), titled(kept.get("destination"))];
  refresh();
  view(kept.get("view") === "graph" ? "graph" : "matrix");
  if (from && to) panel.pair(from, to, grid.wanted, false);
}

let waiting = 0;
by("filters").addEventListener("input", () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => {
    refresh();
    remember();
  });
});
by("filters").addEventListener("submit", (event) => event.preventDefault());
by("filters").addEventListener("reset", () => setTimeout(() => {
  refresh();
  remember();
}));
by("fold").addEventListener("click", () => foldAll(false));
by("unfold").addEventListener("click", () => foldAll(true));
by("theme").addEventListener("click", () => {
  theme(THEMES[document.documentElement.dataset.theme]);
  remember();
});
for (const one of ["matrix", "graph"]) {
  const other = one === "matrix" ? "graph" : "matrix";
  by(`tab-${one}`).addEventListener("click", () => {
    view(one);
    remember();
  });
  by(`tab-${one}`).addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    view(other);
    remember();
    by(`tab-${other}`).focus();
  });
}
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, select")) {
    event.preventDefault();
    by("from").focus();
  }
});
addEventListener("hashchange", recall);
addEventListener("beforeprint", () => grid.print(true));
addEventListener("afterprint", () => grid.print(false));
grid.onFold = refresh;
panel.onShow = remember;
panel.onClose = () => {
  remember();
  (by("matrix").hidden ? graph.nodes?.[graph.active] : grid)?.focus();
};

const names = new Set(tree.flatMap((top) => [top.section.title, ...top.children.map((line) => line.title)]));
by("names").append(...[...names].slice(0, 1000).map((name) => {
  const option = document.createElement("option");
  option.value = name;
  return option;
}));
summary();
recall();
document.body.dataset.ready = "yes";
