// The episodes of a job in a list: one element on the server however many there are.
export default {
  template: `
    <ul class="live-list" aria-label="Episodes">
      <li v-for="row in rows" :key="row.id">
        <button type="button" class="live-row" :data-episode="row.id" :aria-pressed="String(row.id === chosen)"
                @click="$emit('choose', row.id)">
          <span class="live-title">{{ row.title }}</span>
          <span class="chip" :class="row.tone">{{ row.state }}</span>
          <span class="live-about numbers">{{ row.place }}</span>
          <span class="live-about live-played numbers">{{ row.played }}</span>
        </button>
      </li>
    </ul>`,
  props: { rows: Array, chosen: String },
  emits: ["choose"],
};
