// The explanation beside the matrix: what a pair may exchange, and which policies and rules say so.

const REASONS = {
  "same-pod": "a pod always reaches itself",
  "not-a-pod": "no policy applies to this end",
  "local-node": "a pod and its own node always reach each other",
  "not-isolated": "no policy isolates it in this direction",
  "allowed-by-rule": "a rule allows it",
  "denied-by-rule": "a rule denies it",
  "no-rule-matches": "policies isolate it, and none of their rules allows this",
  "cluster-default": "nothing isolates the pod, and the cluster default is to deny",
  "icmp-accepted": "the cluster lets all of it pass",
  "unresolved-port-name": "the destination has no port of that name",
  "no-common-family": "the two have no address family in common",
};

/** An element with a class, and children that are elements or texts. */
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

class Panel {
  constructor(root) {
    this.root = root;
    this.shown = null;
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  /** Shows the explanation of two lines. */
  pair(from, to, wanted, focus) {
    const pairs = this.#distinct(from, to);
    const heading = element("h2", "", element("span", "end", from.title), " → ", element("span", "end", to.title));
    const state = wanted.state(from, to);
    const parts = [heading];
    if (!pairs.length) {
      parts.push(element("p", "", "There is no such pair: an endpoint does not speak to itself, and what passes outside the cluster is not its business."));
    } else if (pairs.length === 1) {
      parts.push(this.#verdict(state, cellText(pairs[0].cell)), ...this.#why(from, to, pairs[0]));
    } else {
      parts.push(this.#verdict(state, `${pairs.length} different answers within this group`));
      parts.push(...pairs.slice(0, 24).map((pair) => this.#fold(from, to, pair)));
      if (pairs.length > 24) parts.push(element("p", "", `and ${pairs.length - 24} more: unfold the group to see them.`));
    }
    this.#show({ from, to }, parts, focus);
  }

  /** Shows what one line is and may do. */
  line(line, wanted, focus) {
    const parts = [element("h2", "", element("span", "end", line.title))];
    const [first] = line.members.map((member) => map.endpoints[member]);
    const what = line.members.length === 1 ? first.kind : `${line.members.length} endpoints`;
    parts.push(element("p", "kind", what === "external" ? "addresses outside the cluster" : what));
    parts.push(this.#list("May open connections to", workloads.map((to) => [to, wanted.state(line, to), line, to]), wanted));
    parts.push(this.#list("Accepts connections from", workloads.map((from) => [from, wanted.state(from, line), from, line]), wanted));
    const addresses = line.members.flatMap((member) => map.endpoints[member].addresses);
    const shown = addresses.slice(0, 40).join("\n") + (addresses.length > 40 ? `\nand ${addresses.length - 40} more` : "");
    parts.push(element("h3", "", "Addresses"), element("pre", "", shown || "none"));
    this.#show({ line }, parts, focus);
  }

  close() {
    if (this.root.hidden) return;
    this.root.hidden = true;
    this.shown = null;
    this.onClose?.();
  }

  #show(shown, parts, focus) {
    this.shown = shown;
    const close = element("button", "quiet close", "Close");
    close.type = "button";
    close.addEventListener("click", () => this.close());
    this.root.replaceChildren(close, ...parts);
    this.root.hidden = false;
    this.root.scrollTop = 0;
    if (focus) close.focus();
    this.onShow?.();
  }

  /** The different answers among the pairs of two lines, each with one pair that has it. */
  #distinct(from, to) {
    const found = new Map();
    for (const one of from.parts) {
      for (const other of to.parts) {
        const pair = between(one, other);
        if (!pair) continue;
        const key = `${pair.cell} ${pair.egress} ${pair.ingress}`;
        const known = found.get(key);
        if (known) {
          known.more += 1;
        } else {
          found.set(key, { ...pair, one, other, more: 0 });
        }
      }
    }
    return [...found.values()];
  }

  #verdict(state, text) {
    return element("p", `verdict ${STATE_CLASS[state]}`, element("span", `cell ${STATE_CLASS[state]}`), " ", text);
  }

  #fold(from, to, pair) {
    const [one, other] = [pair.one, pair.other].map((part) => map.endpoints[part.first].id);
    const more = pair.more ? ` and ${pair.more} more` : "";
    const state = wantedEverything.cells[pair.cell];
    const summary = element("summary", "", element("span", `cell ${STATE_CLASS[state]}`), ` ${one} → ${other}${more}: ${cellText(pair.cell)}`);
    return element("details", "", summary, ...this.#why(from, to, pair));
  }

  #why(from, to, pair) {
    return [
      this.#side("Egress", `what ${from.name} may send`, pair.egress),
      this.#side("Ingress", `what ${to.name} accepts`, pair.ingress),
    ];
  }

  #side(title, what, saying) {
    const [four, six] = map.sayings[saying];
    const made = element("section", "side", element("h3", "", `${title} `, element("small", "", what)));
    if (four !== null && six !== null && four !== six) {
      made.append(element("h4", "", "IPv4"), this.#parts(four), element("h4", "", "IPv6"), this.#parts(six));
    } else if (four !== null || six !== null) {
      made.append(this.#parts(four ?? six));
    }
    return made;
  }

  #parts(end) {
    const parts = map.ends[end].map(([traffic, judgement], _, all) => {
      const { verdict, reason, causes } = map.judgements[judgement];
      const rest = all.length === 1 ? "everything" : "everything else";
      const text = traffic === null ? rest : trafficText(traffic);
      const item = element("li", verdict, element("b", "", text), ` ${verdict === "allow" ? "allowed" : "denied"}: ${REASONS[reason] ?? reason}`);
      if (causes.length) item.append(element("ul", "causes", ...causes.map((cause) => this.#cause(map.causes[cause]))));
      return item;
    });
    return element("ul", "parts", ...parts);
  }

  #cause({ kind, namespace, name, direction, rule, file, line }) {
    const object = namespace ? `${namespace}/${name}` : name;
    const what = rule === null ? "isolates" : `${direction} rule ${rule}`;
    return element("li", "", `${kind} `, element("b", "", object), `, ${what} `, element("code", "", `${file}:${line}`));
  }

  #list(title, entries, wanted) {
    const reached = entries.filter(([, state]) => state > State.NONE);
    const made = element("section", "", element("h3", "", `${title} `, element("small", "", `${reached.length} of ${entries.length}`)));
    const items = reached.slice(0, 200).map(([end, state, from, to]) => {
      const button = element("button", "link", element("span", `cell ${STATE_CLASS[state]}`), ` ${end.title}`);
      button.type = "button";
      button.addEventListener("click", () => this.pair(from, to, wanted, true));
      return element("li", "", button);
    });
    if (reached.length > 200) items.push(element("li", "", `and ${reached.length - 200} more`));
    made.append(element("ul", "reached", ...items));
    return made;
  }
}

const wantedEverything = new Wanted(null, "");
