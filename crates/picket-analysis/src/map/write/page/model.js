// What the page knows: the map that was embedded in it, and questions to that map.
// data.rs, beside this file, describes the members of `map`.

const map = JSON.parse(document.getElementById("map").textContent);

/** How much a pair may exchange. */
const State = { NO_PAIR: -1, NONE: 0, SOME: 1, ALL: 2, MIXED: 3 };
const STATE_CLASS = { [-1]: "blank", 0: "none", 1: "some", 2: "all", 3: "mixed" };

/** `[value, count, …]` written out. */
function unrolled(runs, length) {
  const values = new Int32Array(length);
  let at = 0;
  for (let i = 0; i < runs.length; i += 2) {
    values.fill(runs[i], at, at + runs[i + 1]);
    at += runs[i + 1];
  }
  return values;
}

/** A table over classes whose rows are unrolled when they are first asked for. */
class Table {
  constructor(rows) {
    this.rows = rows;
    this.ready = new Array(rows.length);
  }
  get(from, to) {
    this.ready[from] ??= unrolled(this.rows[from], this.rows.length);
    return this.ready[from][to];
  }
}

const tables = {
  cell: new Table(map.rows),
  egress: new Table(map.egress),
  ingress: new Table(map.ingress),
};
const own = new Map(map.own.map(([from, to, cell, egress, ingress]) => [`${from} ${to}`, { cell, egress, ingress }]));

/** Kinds of endpoints that nothing tells apart but their names: the parts of a line of the matrix. */
function partsOf(members) {
  const parts = new Map();
  for (const number of members) {
    const { class: klass, on, node, kind, pod } = map.endpoints[number];
    const key = `${klass} ${on} ${node}`;
    const part = parts.get(key);
    if (part) {
      part.count += 1;
    } else {
      parts.set(key, { klass, on, node, kind, pod, count: 1, first: number });
    }
  }
  return [...parts.values()];
}

/** Whether a member of one part and a member of the other are a pair. */
function isPair(from, to) {
  if (from.kind === "external" && to.kind === "external") return false;
  const isSame = from.first === to.first || (from.pod !== undefined && from.pod === to.pod);
  const alone = isSame && from.count === 1 && to.count === 1;
  return !alone || from.kind === "workload";
}

/** The numbers of what two parts may exchange and of what both ends say; `null` when they are no pair. */
function between(from, to) {
  if (!isPair(from, to)) return null;
  const nodeOf = (one, other) => one.node !== null && one.node === other.on;
  if (nodeOf(from, to) || nodeOf(to, from)) {
    const found = own.get(`${from.klass} ${to.klass}`);
    if (found) return found;
  }
  const [a, b] = [from.klass, to.klass];
  return { cell: tables.cell.get(a, b), egress: tables.egress.get(a, b), ingress: tables.ingress.get(b, a) };
}

/** What is asked about: one port, one protocol, both or neither. */
class Wanted {
  constructor(port, protocol) {
    this.port = port;
    this.protocol = protocol;
    this.states = map.traffic.map(({ allow }) => this.#stateOf(allow));
    this.cells = map.cells.map((families) => this.#ofFamilies(families));
  }

  #stateOf(allow) {
    if (allow === "all") return State.ALL;
    const { port, protocol } = this;
    if (port === null && protocol === "") return Object.keys(allow).length ? State.SOME : State.NONE;
    const protocols = protocol ? [protocol] : ["TCP", "UDP", "SCTP"];
    const answers = protocols.map((name) => {
      const ranges = allow[name];
      if (ranges === undefined) return State.NONE;
      if (ranges === true) return port === null ? State.ALL : State.NONE;
      if (port !== null) return ranges.some(([first, last]) => first <= port && port <= last) ? State.ALL : State.NONE;
      return ranges[0][0] === 1 && ranges[0][1] === 65535 ? State.ALL : State.SOME;
    });
    if (port !== null && answers.includes(State.ALL)) return protocol ? State.ALL : State.SOME;
    return answers.every((one) => one === answers[0]) ? answers[0] : State.SOME;
  }

  #ofFamilies(families) {
    const states = families.filter((one) => one !== null).map((one) => this.states[one]);
    if (!states.length) return State.NO_PAIR;
    return states.every((one) => one === states[0]) ? states[0] : State.SOME;
  }

  /** What two lines may exchange: a state, and the numbers of all cells that their pairs have. */
  state(from, to) {
    let state = State.NO_PAIR;
    for (const one of from.parts) {
      for (const other of to.parts) {
        const pair = between(one, other);
        const next = pair ? this.cells[pair.cell] : State.NO_PAIR;
        if (next === State.NO_PAIR || next === state) continue;
        state = state === State.NO_PAIR ? next : State.MIXED;
        if (state === State.MIXED) return state;
      }
    }
    return state;
  }
}

/** A set of traffic in words. */
function trafficText(number) {
  const { text, allow } = map.traffic[number];
  if (allow === "all") return "everything";
  return Object.keys(allow).length ? text : "nothing";
}

/** What a cell allows, in words, family by family. */
function cellText(cell) {
  const [four, six] = map.cells[cell];
  if (four !== null && six !== null && four !== six) return `IPv4: ${trafficText(four)}; IPv6: ${trafficText(six)}`;
  return four === null && six === null ? "no family in common" : trafficText(four ?? six);
}
