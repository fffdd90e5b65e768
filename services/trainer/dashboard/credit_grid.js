// A group as a grid: a row an episode, a cell a step. One element on the server however many cells there are.
// Arrow keys, Home and End move among the cells that the filters leave, and open them; Escape closes.
//
// The table is made by hand: whenever anything on a page changes, NiceGUI has Vue render all of it anew, and to compare
// hundreds of cells each time takes longer than to draw them.
import { toRaw } from "vue";

export default {
  template: `
    <div class="credit-scroll">
      <table ref="table" role="grid" class="credit-grid" :aria-label="caption" @click="clicked" @keydown="pressed"></table>
    </div>`,
  props: { rows: Array, caption: String, start: Object },
  emits: ["open", "close"],
  created() {
    // What the server changes by calling the methods, so that it need not send the rows again.
    this.at = this.start.at;
    this.episodes = this.start.episodes;
    this.steps = this.start.steps;
  },
  mounted() {
    const rows = toRaw(this.rows); // through Vue's proxies reading them is slow
    const columns = Math.max(0, ...rows.map((row) => row.cells.length));
    this.cells = rows.flatMap(cellsOf);
    this.lines = rows.map((row, episode) => line(row, episode, this.cells.filter((cell) => cell.episode === episode)));
    this.body = document.createElement("tbody");
    this.$refs.table.classList.toggle("tight", columns > 24);
    this.$refs.table.append(head(columns), this.body);
    this.filter(this.episodes, this.steps);
  },
  methods: {
    filter(episodes, steps) {
      this.episodes = episodes;
      this.steps = steps;
      const shown = this.lines.filter((one) => episodes === "all" || one.won === (episodes === "successes"));
      this.body.replaceChildren(...shown.map((one) => one.element));
      for (const cell of this.cells) cell.element.textContent = cell.filters.includes(steps) ? cell.text : "";
      this.reachable = shown.flatMap((one) => one.cells.filter((cell) => cell.filters.includes(steps)));
      this.mark(this.at);
    },
    mark(at) {
      this.at = at;
      const open = this.cells.find((cell) => cell.at === at);
      // The one cell that the Tab key reaches.
      const stop = this.reachable.includes(open) ? open : this.reachable[0];
      for (const cell of this.cells) {
        const relation = cell === open ? " open" : cell.state === open?.state ? " sibling" : "";
        set(cell.element, "class", (cell.filters.includes(this.steps) ? cell.colour : "away") + cell.marks + relation);
        set(cell.element, "tabindex", cell === stop ? "0" : "-1");
        set(cell.element, "aria-selected", String(cell === open));
      }
    },
    focus(at) {
      this.cells.find((cell) => cell.at === at)?.element.focus();
    },
    open({ at, episode, turn }) {
      this.mark(at);
      this.focus(at);
      this.$emit("open", { episode, turn });
    },
    clicked(event) {
      const element = event.target.closest("td");
      if (element) this.open(this.cells.find((cell) => cell.element === element));
    },
    pressed(event) {
      if (event.key === "Escape") {
        this.mark(null);
        this.$emit("close");
        return;
      }
      const from = this.cells.find((cell) => cell.element === event.target);
      const to = from && this.next(from, event.key);
      if (!to) return;
      event.preventDefault();
      this.open(to);
    },
    next(from, key) {
      const inRow = this.reachable.filter((cell) => cell.episode === from.episode);
      const above = this.reachable.findLast((cell) => cell.episode < from.episode)?.episode;
      const below = this.reachable.find((cell) => cell.episode > from.episode)?.episode;
      const nearestIn = (episode) =>
        this.reachable
          .filter((cell) => cell.episode === episode)
          .reduce((best, cell) => (Math.abs(cell.turn - from.turn) < Math.abs(best.turn - from.turn) ? cell : best));
      return {
        Enter: () => from,
        " ": () => from,
        ArrowLeft: () => inRow.findLast((cell) => cell.turn < from.turn),
        ArrowRight: () => inRow.find((cell) => cell.turn > from.turn),
        Home: () => inRow[0],
        End: () => inRow.at(-1),
        ArrowUp: () => above !== undefined && nearestIn(above),
        ArrowDown: () => below !== undefined && nearestIn(below),
      }[key]?.();
    },
  },
};

// The cells of a row, each with the element that shows it.
function cellsOf(row, episode) {
  return row.cells.map(({ text, level, state, label, filters }, turn) => {
    const at = `${episode}.${turn}`;
    const element = tag("td", { role: "gridcell", "aria-label": label, title: label, "data-at": at });
    const colour = level < 0 ? `minus-${-level}` : `plus-${level}`;
    const marks = (filters.includes("singletons") ? " single" : "") + (filters.includes("clipped") ? " clipped" : "");
    return { at, episode, turn, text, state, filters, colour, marks, element };
  });
}

function line(row, episode, cells) {
  const who = tag("th", { scope: "row", class: "who" });
  who.append(tag("span", {}, episode), " ", tag("span", { class: row.won ? "won" : "lost" }, row.outcome));
  const element = tag("tr");
  element.append(who, ...cells.map((cell) => cell.element));
  return { won: row.won, cells, element };
}

function head(columns) {
  const names = tag("tr");
  names.append(tag("th", { scope: "col", class: "who" }, "Episode"));
  for (let turn = 0; turn < columns; turn++) names.append(tag("th", { scope: "col" }, turn));
  const element = tag("thead");
  element.append(names);
  return element;
}

function tag(name, attributes = {}, text = "") {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
