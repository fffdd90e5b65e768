// A group as a grid: a row an episode, a cell a step. One element on the server however many cells there are.
// Arrow keys, Home and End move among the cells that the filters leave, and open them; Escape closes.
export default {
  template: `
    <div class="credit-scroll">
      <table role="grid" class="credit-grid" :class="{ tight: columns > 24 }" :aria-label="caption"
             @click="clicked" @keydown="pressed">
        <thead>
          <tr>
            <th scope="col" class="who">Episode</th>
            <th scope="col" v-for="turn in columns" :key="turn">{{ turn - 1 }}</th>
          </tr>
        </thead>
        <tbody>
          <template v-for="(row, episode) in rows" :key="episode">
            <tr v-if="shows(row)">
              <th scope="row" class="who"><span>{{ episode }}</span> <span :class="row.won ? 'won' : 'lost'">{{ row.outcome }}</span></th>
              <td v-for="(cell, turn) in row.cells" :key="turn" role="gridcell"
                  :class="classes(cell, episode, turn)" :tabindex="isStop(episode, turn) ? 0 : -1"
                  :aria-selected="isOpen(episode, turn)" :aria-label="cell.label" :title="cell.label"
                  :data-at="episode + '.' + turn"><span>{{ cell.text }}</span></td>
            </tr>
          </template>
        </tbody>
      </table>
    </div>`,
  props: { rows: Array, caption: String, start: Object },
  emits: ["open", "close"],
  data() {
    // What the server changes by calling the methods, so that it need not send the rows again.
    return { at: this.start.at, episodes: this.start.episodes, steps: this.start.steps };
  },
  computed: {
    columns() {
      return Math.max(0, ...this.rows.map((row) => row.cells.length));
    },
    state() {
      return this.at === null ? null : this.cell(this.at)?.state;
    },
    stop() {
      // The one cell that the Tab key reaches.
      if (this.at !== null && this.reachable(this.at)) return this.at;
      return this.reachableCells()[0] ?? null;
    },
  },
  methods: {
    cell(at) {
      const [episode, turn] = at.split(".").map(Number);
      return this.rows[episode]?.cells[turn];
    },
    shows(row) {
      return this.episodes === "all" || row.won === (this.episodes === "successes");
    },
    reachable(at) {
      const cell = this.cell(at);
      return cell !== undefined && this.shows(this.rows[Number(at.split(".")[0])]) && cell.filters.includes(this.steps);
    },
    reachableCells() {
      return this.rows.flatMap((row, episode) =>
        this.shows(row)
          ? row.cells.flatMap((cell, turn) => (cell.filters.includes(this.steps) ? [`${episode}.${turn}`] : []))
          : [],
      );
    },
    isOpen(episode, turn) {
      return this.at === `${episode}.${turn}`;
    },
    isStop(episode, turn) {
      return this.stop === `${episode}.${turn}`;
    },
    classes(cell, episode, turn) {
      const open = this.isOpen(episode, turn);
      return [
        cell.filters.includes(this.steps) ? (cell.level < 0 ? `minus-${-cell.level}` : `plus-${cell.level}`) : "away",
        cell.filters.includes("singletons") ? "single" : "",
        cell.filters.includes("clipped") ? "clipped" : "",
        open ? "open" : this.state === cell.state ? "sibling" : "",
      ];
    },
    clicked(event) {
      const at = event.target.closest("td")?.dataset.at;
      if (at) this.open(at);
    },
    pressed(event) {
      if (event.key === "Escape") {
        this.at = null;
        this.$emit("close");
        return;
      }
      const from = event.target.dataset.at;
      const to = from && this.next(from, event.key);
      if (!to) return;
      event.preventDefault();
      this.open(to);
    },
    next(from, key) {
      const [episode, turn] = from.split(".").map(Number);
      const cells = this.reachableCells().map((at) => at.split(".").map(Number));
      const inRow = cells.filter(([row]) => row === episode).map(([, place]) => place);
      const beside = {
        Enter: () => turn,
        " ": () => turn,
        ArrowLeft: () => inRow.filter((place) => place < turn).at(-1),
        ArrowRight: () => inRow.find((place) => place > turn),
        Home: () => inRow[0],
        End: () => inRow.at(-1),
      }[key]?.();
      if (beside !== undefined) return `${episode}.${beside}`;
      const rows = [...new Set(cells.map(([row]) => row))];
      const row = { ArrowUp: rows.filter((one) => one < episode).at(-1), ArrowDown: rows.find((one) => one > episode) }[key];
      if (row === undefined) return null;
      const places = cells.filter(([one]) => one === row).map(([, place]) => place);
      const nearest = places.reduce((best, place) => (Math.abs(place - turn) < Math.abs(best - turn) ? place : best));
      return `${row}.${nearest}`;
    },
    filter(episodes, steps) {
      this.episodes = episodes;
      this.steps = steps;
    },
    mark(at) {
      this.at = at;
    },
    open(at) {
      this.at = at;
      this.$nextTick(() => this.focus(at));
      const [episode, turn] = at.split(".").map(Number);
      this.$emit("open", { episode, turn });
    },
    focus(at) {
      this.$el.querySelector(`[data-at="${at}"]`)?.focus();
    },
  },
};
