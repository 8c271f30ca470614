// The graph: workloads on a circle by namespace, and a curve for every pair that may exchange something.

/** The most curves that are drawn at once; of more only those of one workload. */
const CURVES = 1500;
/** The colours for namespaces that the style has. */
const HUES = 6;
/** The room for names around the circle. */
const LABEL = 165;

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

class Graph {
  constructor(root, panel) {
    this.root = root;
    this.panel = panel;
    this.selected = null;
    this.active = 0;
  }

  show(fromMatches, toMatches, wanted) {
    Object.assign(this, { fromMatches, toMatches, wanted });
    this.curves = null;
    if (!this.root.hidden) this.draw();
  }

  draw() {
    this.curves ??= this.#curves();
    const size = map.circle.radius + LABEL;
    const picture = svg("svg", { viewBox: `${-size} ${-size} ${2 * size} ${2 * size}`, role: "group", "aria-label": "Graph of workloads" });
    const curves = svg("g", { class: "curves", "aria-hidden": "true" });
    const shown = this.#shown();
    curves.append(...shown.map((curve) => this.#path(curve)));
    const nodes = svg("g", { class: "nodes" });
    nodes.append(...workloads.map((line, at) => this.#node(line, at)));
    picture.append(this.#arcs(), curves, nodes);
    picture.addEventListener("keydown", (event) => this.#key(event));
    const hidden = this.curves.length - shown.length;
    const note = hidden ? `${this.curves.length} connections are too many to draw at once: choose a workload to see its own.` : "";
    const names = element("ul", "names", ...tree.map((top, section) => element("li", `hue${section % HUES}`, top.title)));
    this.root.replaceChildren(element("p", "note", note), names, picture);
    this.nodes = [...nodes.children];
  }

  #curves() {
    const found = [];
    workloads.forEach((from, source) => {
      if (!this.fromMatches(from)) return;
      workloads.forEach((to, destination) => {
        if (source === destination || !this.toMatches(to)) return;
        const state = this.wanted.state(from, to);
        if (state > State.NONE) found.push({ source, destination, state });
      });
    });
    return found;
  }

  #shown() {
    const touches = ({ source, destination }) => source === this.selected || destination === this.selected;
    if (this.curves.length <= CURVES) return this.curves;
    return this.selected === null ? [] : this.curves.filter(touches);
  }

  #path({ source, destination, state }) {
    const [from, to] = [map.circle.spots[source], map.circle.spots[destination]];
    const apart = Math.abs(from.angle - to.angle);
    // Neighbours are joined near the rim, opposite ends through the middle.
    const pull = 0.75 - 0.6 * (Math.min(apart, 360 - apart) / 180);
    const along = (spot, by) => `${(spot.x * by).toFixed(1)} ${(spot.y * by).toFixed(1)}`;
    const d = `M${along(from, 0.985)}C${along(from, pull)} ${along(to, pull)} ${along(to, 0.985)}`;
    const kind = this.selected === null ? "" : source === this.selected ? " out" : destination === this.selected ? " in" : " faint";
    const path = svg("path", { d, class: `curve ${STATE_CLASS[state]}${kind}` });
    path.addEventListener("click", () => this.panel.pair(workloads[source], workloads[destination], this.wanted, false));
    path.append(svg("title", {}, `${workloads[source].title} → ${workloads[destination].title}`));
    return path;
  }

  #node(line, at) {
    const { x, y, angle } = map.circle.spots[at];
    const left = angle > 180;
    const text = line.name.length > 22 ? `${line.name.slice(0, 21)}…` : line.name;
    const label = svg("text", {
      transform: `rotate(${left ? angle + 90 : angle - 90}) translate(${left ? -12 : 12} 0)`,
      "text-anchor": left ? "end" : "start",
      "dominant-baseline": "central",
    }, text);
    const chosen = at === this.selected;
    const node = svg("g", {
      class: `node hue${tree.indexOf(line.top) % HUES}${chosen ? " chosen" : ""}${this.fromMatches(line) || this.toMatches(line) ? "" : " faint"}`,
      transform: `translate(${x} ${y})`,
      tabindex: at === this.active ? 0 : -1,
      role: "button",
      "aria-pressed": chosen,
      "aria-label": line.title,
    }, svg("circle", { r: 5 }), label);
    node.addEventListener("click", () => this.choose(at));
    return node;
  }

  #arcs() {
    const group = svg("g", { class: "arcs", "aria-hidden": "true" });
    const radius = map.circle.radius - 12;
    const spot = (degrees) => {
      const turn = (degrees * Math.PI) / 180;
      return `${(radius * Math.sin(turn)).toFixed(1)} ${(-radius * Math.cos(turn)).toFixed(1)}`;
    };
    tree.forEach((top, at) => {
      const { first, last } = map.circle.arcs[at];
      const d = `M${spot(first)}A${radius} ${radius} 0 ${last - first > 180 ? 1 : 0} 1 ${spot(last)}`;
      group.append(svg("path", { d, class: `arc hue${at % HUES}` }, svg("title", {}, top.title)));
    });
    return group;
  }

  /** Shows what one workload may exchange; again, everything. */
  choose(at) {
    this.active = at;
    this.selected = this.selected === at ? null : at;
    this.draw();
    this.nodes[at].focus({ preventScroll: true });
    if (this.selected === null) {
      this.panel.close();
    } else {
      this.panel.line(workloads[at], this.wanted, false);
    }
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      this.nodes[this.active].setAttribute("tabindex", -1);
      this.active = (this.active + step + workloads.length) % workloads.length;
      this.nodes[this.active].setAttribute("tabindex", 0);
      this.nodes[this.active].focus();
    } else if (event.key === "Enter" || event.key === " ") {
      this.choose(this.active);
    } else if (event.key === "Escape") {
      if (this.selected !== null) this.choose(this.selected);
    } else {
      return;
    }
    event.preventDefault();
  }
}
