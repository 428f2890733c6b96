// A list of any length; only visible rows exist in the document.

const AROUND = 8; // rows beyond each edge
const ON_PAPER = 2000; // rows that are printed
const TALLEST = 8e6; // pixels; browsers limit the height of elements

class VirtualList {
  /** draw(item) returns a row; choose(item) is called when one is selected. */
  constructor(draw, choose) {
    this.draw = draw;
    this.choose = choose;
    this.items = [];
    this.at = -1;
    this.made = new Map(); // rows that exist, by their places
    this.rows = h("div.rows", { role: "presentation" });
    this.room = h("div.room", { role: "presentation" }, this.rows);
    this.node = h("div.list", { tabindex: "0", role: "listbox", "aria-label": "documents", scroll: () => this.paint() }, this.room);
    this.isPrinted = false;
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    this.observer = new ResizeObserver(() => requestAnimationFrame(() => this.measure()));
    this.observer.observe(this.node);
  }

  measure() {
    const style = getComputedStyle(this.node);
    this.height = Number.parseFloat(style.getPropertyValue("--row")) || 44;
    this.show(this.items);
    this.select(this.at);
  }

  show(items) {
    this.items = items;
    this.whole = items.length * (this.height ?? 44);
    this.room.style.height = `${Math.min(this.whole, TALLEST)}px`;
    this.drawn = "";
    this.made = new Map();
    this.paint();
  }

  /** Position of the view in the whole list, in pixels. */
  get top() {
    const { scrollTop, clientHeight } = this.node;
    if (this.whole <= TALLEST) return scrollTop;
    return (scrollTop / (TALLEST - clientHeight)) * (this.whole - clientHeight);
  }

  /** Paper does not scroll: its rows exist all at once, up to a limit. */
  print(isPrinted) {
    if (!this.node.isConnected && isPrinted) return;
    this.isPrinted = isPrinted;
    this.paint();
  }

  /** Positions of the first row that exists and of the one after the last. */
  range(height, top) {
    if (this.isPrinted) return [0, Math.min(this.items.length, ON_PAPER)];
    const first = Math.max(0, Math.floor(top / height) - AROUND);
    return [first, Math.min(this.items.length, Math.ceil((top + this.node.clientHeight) / height) + AROUND)];
  }

  paint() {
    const height = this.height ?? 44, top = this.top;
    const [first, last] = this.range(height, top);
    this.rows.style.transform = `translateY(${this.node.scrollTop + first * height - top}px)`;
    const wanted = `${first} ${last} ${this.at}`;
    if (wanted === this.drawn) return;
    this.drawn = wanted;
    const made = new Map();
    for (let at = first; at < last; at += 1) {
      const row = this.made.get(at) ?? this.row(this.items[at], at);
      row.setAttribute("aria-selected", String(at === this.at));
      made.set(at, row);
    }
    this.made = made;
    this.rows.replaceChildren(...made.values());
  }

  row(item, at) {
    const row = this.draw(item);
    attributes(row, {
      role: "option",
      id: `row-${at}`,
      "aria-posinset": String(at + 1),
      "aria-setsize": String(this.items.length),
      click: () => this.take(at),
    });
    return row;
  }

  take(at) {
    if (at < 0 || at >= this.items.length) return;
    this.select(at);
    this.choose(this.items[at]);
  }

  /** Mark a row and scroll to it. */
  select(at) {
    this.at = at;
    if (at >= 0) {
      this.node.setAttribute("aria-activedescendant", `row-${at}`);
      const height = this.height ?? 44, room = this.node.clientHeight, top = this.top;
      const over = at * height - top, under = (at + 1) * height - (top + room);
      if (over < 0) this.scroll(at * height);
      else if (under > 0) this.scroll((at + 1) * height - room);
    } else this.node.removeAttribute("aria-activedescendant");
    this.paint();
  }

  scroll(top) {
    const room = this.node.clientHeight;
    this.node.scrollTop = this.whole <= TALLEST ? top : (top / (this.whole - room)) * (TALLEST - room);
  }

  pageRows() {
    return Math.max(1, Math.floor(this.node.clientHeight / (this.height ?? 44)) - 1);
  }
}
