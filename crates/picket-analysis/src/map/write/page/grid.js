// The matrix. Only the cells in view are elements; they are reused as the view moves, so that its size does not matter.

/** The width and height of a cell, and the room for names before the first; the style has the same. */
const LINE = 24;
const NAMES = { width: 250, height: 170 };
/** Lines beyond the edges that are kept ready. */
const MARGIN = 4;
/** The most lines that are all drawn for printing. */
const PRINTED = 150;
const UNKNOWN = 127;

class Grid {
  constructor(root, panel) {
    this.panel = panel;
    this.rows = [];
    this.columns = [];
    this.active = { row: 0, column: 0 };
    this.scroller = element("div", "scroller");
    this.scroller.setAttribute("role", "grid");
    this.scroller.setAttribute("aria-label", "Who may talk to whom: rows open connections, columns accept them");
    this.scroller.tabIndex = -1;
    this.sheet = element("div", "sheet");
    this.sheet.setAttribute("role", "rowgroup");
    this.head = element("div", "head");
    this.head.setAttribute("role", "row");
    this.head.setAttribute("aria-rowindex", "1");
    const corner = element("div", "corner", element("span", "", "to ↗"), element("span", "", "from ↓"));
    corner.setAttribute("role", "columnheader");
    corner.setAttribute("aria-colindex", "1");
    corner.setAttribute("aria-label", "from, to");
    this.head.append(corner);
    this.bands = [element("div", "band across"), element("div", "band down")];
    this.empty = element("p", "empty", "Nothing matches these filters.");
    this.tip = element("div", "tip");
    this.tip.setAttribute("aria-hidden", "true");
    this.tip.hidden = true;
    this.sheet.append(this.head, ...this.bands);
    this.scroller.append(this.sheet);
    root.append(this.scroller, this.empty, this.tip);
    this.#listen();
  }

  /** Shows other lines. The active cell stays where it was, if it is still there. */
  show(rows, columns, wanted) {
    const at = (lines, index) => lines[index]?.key;
    const [row, column] = [at(this.rows, this.active.row), at(this.columns, this.active.column)];
    const index = (lines, key, before) => {
      const found = lines.findIndex((line) => line.key === key);
      return found >= 0 ? found : Math.min(before, lines.length - 1);
    };
    Object.assign(this, { rows, columns, wanted });
    this.states = new Int8Array(rows.length * columns.length).fill(UNKNOWN);
    if (this.active.row >= 0) this.active.row = Math.max(0, index(rows, row, this.active.row));
    if (this.active.column >= 0) this.active.column = Math.max(0, index(columns, column, this.active.column));
    this.scroller.setAttribute("aria-rowcount", rows.length + 1);
    this.scroller.setAttribute("aria-colcount", columns.length + 1);
    this.sheet.style.width = `${NAMES.width + columns.length * LINE}px`;
    this.sheet.style.height = `${NAMES.height + rows.length * LINE}px`;
    this.empty.hidden = rows.length > 0 && columns.length > 0;
    this.scroller.hidden = !this.empty.hidden;
    this.#leave();
    this.#rebuild();
  }

  /** How much a pair of lines may exchange, by their places. */
  state(row, column) {
    const at = row * this.columns.length + column;
    if (this.states[at] === UNKNOWN) {
      const [from, to] = [this.rows[row], this.columns[column]];
      const heading = isHeading(from) || isHeading(to);
      this.states[at] = heading ? State.NO_PAIR : this.wanted.state(from, to);
    }
    return this.states[at];
  }

  /** Draws every line while the page is printed, if there are few enough. */
  print(starts) {
    const few = Math.max(this.rows.length, this.columns.length) <= PRINTED;
    this.whole = starts && few;
    const width = NAMES.width + this.columns.length * LINE;
    this.sheet.style.setProperty("--print-zoom", Math.min(1, 1000 / width));
    this.#rebuild();
  }

  #rebuild() {
    const focused = this.scroller.contains(document.activeElement);
    for (const slot of this.slots ?? []) slot.element.remove();
    for (const header of this.headers ?? []) header.remove();
    const { clientWidth, clientHeight } = this.scroller;
    const fit = (size, lines) => (this.whole ? lines : Math.min(lines, Math.ceil(size / LINE) + 2 * MARGIN));
    this.headers = Array.from({ length: fit(clientWidth, this.columns.length) }, () => this.#header("columnheader", "name column"));
    this.head.append(...this.headers);
    this.slots = Array.from({ length: fit(clientHeight, this.rows.length) }, () => this.#slot());
    this.sheet.append(...this.slots.map((slot) => slot.element));
    this.#draw();
    if (focused) this.focus();
  }

  #header(role, className) {
    const made = element("div", className, element("span", "twist"), element("span", "text"));
    made.setAttribute("role", role);
    made.tabIndex = -1;
    return made;
  }

  #slot() {
    const slot = { element: element("div", "line"), header: this.#header("rowheader", "name row"), row: -1 };
    slot.element.setAttribute("role", "row");
    slot.header.setAttribute("aria-colindex", "1");
    slot.cells = Array.from(this.headers, () => {
      const cell = element("div", "slot");
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
      cell.column = -1;
      return cell;
    });
    slot.element.append(slot.header, ...slot.cells);
    return slot;
  }

  /** Fills the elements with what is in view now. Those that stay in view are not touched. */
  #draw() {
    const first = (scrolled, lines, slots) => Math.max(0, Math.min(Math.floor(scrolled / LINE) - MARGIN, lines - slots));
    const { scrollLeft, scrollTop } = this.scroller;
    const left = first(scrollLeft, this.columns.length, this.headers.length);
    const top = first(scrollTop, this.rows.length, this.slots.length);
    const width = this.headers.length;
    for (let column = left; column < left + width; column++) {
      const header = this.headers[column % width];
      if (header.column !== column) this.#fillHeader(header, this.columns[column], "column", column);
    }
    for (let row = top; row < top + this.slots.length; row++) {
      const slot = this.slots[row % this.slots.length];
      const moved = slot.row !== row;
      if (moved) {
        slot.row = row;
        slot.element.style.transform = `translateY(${NAMES.height + row * LINE}px)`;
        slot.element.setAttribute("aria-rowindex", row + 2);
        this.#fillHeader(slot.header, this.rows[row], "row", row);
      }
      for (let column = left; column < left + width; column++) {
        const cell = slot.cells[column % width];
        if (moved || cell.column !== column) this.#fillCell(cell, row, column);
      }
    }
    this.#rove();
  }

  #fillHeader(header, line, axis, at) {
    header[axis] = at;
    const group = line.children.length > 0;
    header.className = `name ${axis} depth${line.depth}${isHeading(line) ? " heading" : ""}`;
    header.firstChild.textContent = group ? (line.open ? "▾" : "▸") : "";
    header.lastChild.textContent = line.name;
    header.title = line.detail && line.depth ? `${line.title} (${line.detail})` : line.title;
    if (group) {
      header.setAttribute("aria-expanded", line.open);
    } else {
      header.removeAttribute("aria-expanded");
    }
    if (axis === "column") {
      header.setAttribute("aria-colindex", at + 2);
      header.style.left = `${NAMES.width + at * LINE}px`;
    }
  }

  #fillCell(cell, row, column) {
    const [from, to] = [this.rows[row], this.columns[column]];
    const state = this.state(row, column);
    Object.assign(cell, { row, column });
    const heading = isHeading(from) || isHeading(to) ? " heading" : "";
    cell.className = `slot ${STATE_CLASS[state]}${heading}`;
    cell.style.left = `${NAMES.width + column * LINE}px`;
    cell.setAttribute("aria-colindex", column + 2);
    cell.setAttribute("aria-label", heading ? "" : `${from.title} to ${to.title}: ${this.#words(state)}`);
  }

  #words(state) {
    return { [-1]: "no pair", 0: "nothing", 1: "some ports", 2: "everything", 3: "some of the pairs" }[state];
  }

  /** The element at a place, if it is drawn; -1 is a name. */
  #at({ row, column }) {
    if (row < 0) return this.headers.find((header) => header.column === column);
    const slot = this.slots.find((one) => one.row === row);
    return column < 0 ? slot?.header : slot?.cells.find((cell) => cell.column === column);
  }

  /** Makes the active cell the one that Tab reaches. */
  #rove() {
    const next = this.#at(this.active) ?? this.scroller;
    if (next === this.tabbed) return;
    const focused = this.tabbed !== undefined && document.activeElement === this.tabbed;
    if (this.tabbed) this.tabbed.tabIndex = -1;
    next.tabIndex = 0;
    this.tabbed = next;
    // An element that is used for another cell must not keep the focus.
    if (focused) next.focus({ preventScroll: true });
  }

  /** Moves to a cell, and shows it. */
  go(row, column) {
    const within = (at, lines) => Math.max(-1, Math.min(at, lines.length - 1));
    this.active = { row: within(row, this.rows), column: within(column, this.columns) };
    if (this.active.row < 0 && this.active.column < 0) this.active.column = 0;
    const { scroller } = this;
    const into = (at, scrolled, room) => {
      if (at < 0) return scrolled;
      const [first, last] = [at * LINE, (at + 1) * LINE - room];
      return Math.max(Math.min(scrolled, first), last);
    };
    scroller.scrollTop = into(this.active.row, scroller.scrollTop, scroller.clientHeight - NAMES.height);
    scroller.scrollLeft = into(this.active.column, scroller.scrollLeft, scroller.clientWidth - NAMES.width);
    this.#draw();
    this.focus();
  }

  focus() {
    (this.#at(this.active) ?? this.scroller).focus({ preventScroll: true });
  }

  /** Explains the cell or unfolds the name at a place. */
  open({ row, column }, focus) {
    const [from, to] = [this.rows[row], this.columns[column]];
    if (from && to) {
      if (!isHeading(from) && !isHeading(to)) this.panel.pair(from, to, this.wanted, focus);
      return;
    }
    const line = from ?? to;
    if (line?.children.length) {
      line.open = !line.open;
      this.onFold();
    } else if (line) {
      this.panel.line(line, this.wanted, focus);
    }
  }

  #listen() {
    const { scroller } = this;
    scroller.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => this.columns.length && this.#rebuild()).observe(scroller);
    scroller.addEventListener("keydown", (event) => this.#key(event));
    scroller.addEventListener("click", (event) => {
      const place = this.#placeOf(event.target);
      if (!place) return;
      this.active = place;
      this.#rove();
      this.open(place, false);
      this.focus();
    });
    scroller.addEventListener("pointerover", (event) => this.#hover(event));
    scroller.addEventListener("pointerleave", () => this.#leave());
  }

  #placeOf(target) {
    const found = target.closest(".slot, .name");
    if (!found) return null;
    const row = found.classList.contains("column") ? -1 : (found.row ?? -1);
    return { row, column: found.column ?? -1 };
  }

  #key(event) {
    const { row, column } = this.active;
    const page = Math.max(1, Math.floor((this.scroller.clientHeight - NAMES.height) / LINE) - 1);
    const far = event.ctrlKey || event.metaKey;
    const moves = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [Math.max(0, row - page), column],
      PageDown: [row + page, column],
      Home: [far ? 0 : row, 0],
      End: [far ? Infinity : row, Infinity],
    };
    if (moves[event.key]) {
      this.go(...moves[event.key]);
    } else if (event.key === "Enter") {
      this.open(this.active, false);
    } else if (event.key === " ") {
      const line = this.rows[row] && this.columns[column] ? null : this.rows[row] ?? this.columns[column];
      if (line) this.panel.line(line, this.wanted, false);
    } else if (event.key === "Escape") {
      this.panel.close();
    } else {
      return;
    }
    event.preventDefault();
  }

  #hover(event) {
    const place = this.#placeOf(event.target);
    this.#leave();
    if (!place) return;
    const [from, to] = [this.rows[place.row], this.columns[place.column]];
    const [across, down] = this.bands;
    across.hidden = !from;
    down.hidden = !to;
    across.style.top = `${NAMES.height + place.row * LINE}px`;
    down.style.left = `${NAMES.width + place.column * LINE}px`;
    for (const name of [this.#at({ row: place.row, column: -1 }), this.#at({ row: -1, column: place.column })]) {
      name?.classList.add("hot");
    }
    if (!from || !to || isHeading(from) || isHeading(to)) return;
    this.tip.replaceChildren(
      element("b", "", from.title), " → ", element("b", "", to.title), element("br"), this.#tipText(from, to, place),
    );
    this.tip.hidden = false;
    const { right, bottom } = event.target.getBoundingClientRect();
    this.tip.style.left = `${Math.min(right + 6, innerWidth - this.tip.offsetWidth - 8)}px`;
    this.tip.style.top = `${Math.min(bottom + 6, innerHeight - this.tip.offsetHeight - 8)}px`;
  }

  #tipText(from, to, { row, column }) {
    const [one, other] = [from.parts, to.parts];
    const pair = one.length === 1 && other.length === 1 ? between(one[0], other[0]) : null;
    return pair ? cellText(pair.cell) : this.#words(this.state(row, column));
  }

  #leave() {
    this.tip.hidden = true;
    for (const band of this.bands) band.hidden = true;
    for (const hot of this.scroller.querySelectorAll(".hot")) hot.classList.remove("hot");
  }
}
