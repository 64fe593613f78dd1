"use strict";
// Fills the table and the differences from the data in the file. Everything is set as text.
(() => {
  const ROWS_SHOWN = 50;
  const MOST_OPTIONS = 200;
  const ON_PAPER = ".card details, .group, #differences > .pair:nth-of-type(-n + 5)";
  const LINK = /^https?:\/\/[^\s\\…]*$/i;

  const byId = (name) => document.getElementById(name);

  function make(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function makeAddress(url) {
    const name = make("bdi", {}, url || "(bulk-loaded fingerprint)");
    if (!LINK.test(url)) return name;
    return make("a", { href: url, rel: "noreferrer noopener" }, name);
  }

  async function readData() {
    const octets = Uint8Array.from(atob(byId("data").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  // Differences, made when they are opened for the first time.

  function makeSide(pieces) {
    const cell = make("div", { class: "side", dir: "auto" });
    pieces.forEach((piece, place) => {
      if (piece) cell.append(place % 2 ? make("mark", {}, piece) : piece);
    });
    return cell;
  }

  function makeRow(row) {
    if ("skipped" in row) {
      return make("p", { class: "skipped" }, `${row.skipped.toLocaleString("en")} sentences alike`);
    }
    if ("left_out" in row) {
      const many = row.left_out.toLocaleString("en");
      return make("p", { class: "skipped" }, `${many} more sentences of both are not shown`);
    }
    const sides = "same" in row ? [[row.same], [row.same]] : [row.first, row.second];
    const kind = ("same" in row ? "row" : "row changed") + (row.template ? " template" : "");
    return make("div", { class: kind }, ...sides.map(makeSide));
  }

  function showDifference(place, pair) {
    if (place.hasChildNodes()) return;
    const heads = [pair.first, pair.second].map((page) => {
      const head = make("div", { class: "side" }, makeAddress(page.url));
      if (page.title) head.prepend(make("bdi", { class: "name" }, page.title));
      return head;
    });
    place.append(make("div", { class: "row head" }, ...heads), ...pair.rows.map(makeRow));
    if (pair.rows.every((row) => "same" in row || "skipped" in row)) {
      place.append(make("p", { class: "skipped" }, "The main texts are the same."));
    }
  }

  function prepareDifferences(pairs) {
    for (const element of document.querySelectorAll("[data-pair]")) {
      const pair = pairs[Number(element.dataset.pair)];
      if (element.localName === "details") {
        const show = () => showDifference(element.querySelector(".difference"), pair);
        element.addEventListener("toggle", () => element.open && show());
        if (element.open) show();
      } else {
        showDifference(element, pair);
      }
    }
  }

  // On paper nothing can be opened: groups and the first differences are, while it is printed.

  function prepareForPaper(pairs) {
    const opened = [];
    window.addEventListener("beforeprint", () => {
      for (const element of document.querySelectorAll(ON_PAPER)) {
        if (!element.open) {
          element.open = true;
          opened.push(element);
        }
        // The event of its opening comes too late, or has yet to come where a person just opened it.
        const place = element.querySelector(".difference");
        if (place) showDifference(place, pairs[Number(element.dataset.pair)]);
      }
    });
    window.addEventListener("afterprint", () => {
      for (const element of opened.splice(0)) element.open = false;
    });
  }

  // The table.

  function findHost(url) {
    return url.split("/", 3)[2] ?? "";
  }

  function writeTime(seconds) {
    if (seconds === null) return "–";
    return new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");
  }

  class Table {
    constructor(data) {
      this.data = data;
      this.page = 0;
      this.column = null;
      this.descending = false;
      this.filters = [];
      // Lower case once, not with every letter that is typed.
      this.texts = data.url.map((url, row) => `${url} ${data.originals[data.original[row]]}`.toLowerCase());
      this.hosts = data.url.map(findHost);
      this.addFilter("host", this.hosts, (host) => host);
      this.addFilter("bits", data.distance, (bits) => `${bits ?? "–"} bit${bits === 1 ? "" : "s"}`);
      this.addFilter("rule", data.rule, (rule) => data.rules[rule] || "none");
      this.addFilter("action", data.action, (action) => data.actions[action] || "none");
      this.addFilter("crawl", data.crawl, (crawl) => data.crawls[crawl] || "unknown");
      for (const button of document.querySelectorAll("#drops [data-column]")) {
        button.addEventListener("click", () => this.sort(button));
      }
      byId("search").addEventListener("input", () => this.filter());
      byId("controls").addEventListener("submit", (event) => event.preventDefault());
      byId("previous").addEventListener("click", () => this.turn(-1));
      byId("next").addEventListener("click", () => this.turn(1));
      for (const name of ["controls", "drops", "pager"]) byId(name).hidden = false;
      this.filter();
    }

    addFilter(name, values, describe) {
      const counts = new Map();
      for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
      if (counts.size < 2) return;
      const options = [...counts].sort((one, other) => other[1] - one[1]).slice(0, MOST_OPTIONS);
      if (name === "bits") options.sort((one, other) => one[0] - other[0]);
      const select = make("select", { id: `filter-${name}` }, make("option", { value: "" }, "all"));
      options.forEach(([value, count], place) => {
        select.append(make("option", { value: String(place) }, `${describe(value)} (${count.toLocaleString("en")})`));
      });
      select.addEventListener("change", () => this.filter());
      byId("controls").append(make("label", {}, `${name} `, select));
      this.filters.push({ select, values, options });
    }

    filter() {
      const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = this.filters.filter((filter) => filter.select.value !== "")
        .map((filter) => [filter.values, filter.options[Number(filter.select.value)][0]]);
      this.found = [];
      for (let row = 0; row < this.data.rows; row += 1) {
        const fits = chosen.every(([values, value]) => values[row] === value);
        if (fits && wanted.every((part) => this.texts[row].includes(part))) this.found.push(row);
      }
      this.order();
    }

    sort(button) {
      const name = button.dataset.column;
      this.descending = this.column === name ? !this.descending : false;
      this.column = name;
      for (const head of document.querySelectorAll("#drops th")) head.removeAttribute("aria-sort");
      button.closest("th").setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      this.order();
    }

    order() {
      const values = this.data[this.column];
      const named = this.column === "original" ? this.data.originals : null;
      const get = named ? (row) => named[values[row]] : (row) => values?.[row];
      const sign = this.descending ? -1 : 1;
      this.found.sort((one, other) => {
        const [first, second] = [get(one), get(other)];
        if (first === second) return one - other;
        // What has no value comes last, whatever the direction.
        if (first === null || second === null) return first === null ? 1 : -1;
        return sign * (first < second ? -1 : 1);
      });
      this.page = 0;
      this.show();
    }

    turn(by) {
      this.page += by;
      this.show();
      byId("table").scrollIntoView();
    }

    show() {
      const start = this.page * ROWS_SHOWN;
      const rows = this.found.slice(start, start + ROWS_SHOWN);
      byId("drops").tBodies[0].replaceChildren(...rows.map((row) => this.makeRow(row)));
      const many = this.found.length.toLocaleString("en");
      byId("found").textContent = `${many} of ${this.data.rows.toLocaleString("en")}`;
      const pages = Math.max(1, Math.ceil(this.found.length / ROWS_SHOWN));
      byId("place").textContent = `${this.page + 1} of ${pages.toLocaleString("en")}`;
      byId("previous").disabled = this.page === 0;
      byId("next").disabled = this.page + 1 >= pages;
      byId("pager").hidden = pages === 1;
    }

    makeRow(row) {
      const { data } = this;
      const page = make("td", { class: "address" }, makeAddress(data.url[row]));
      if (data.pair[row] >= 0) page.append(" ", this.makeOpener(data.pair[row]));
      const original = make("td", { class: "address repeats" }, makeAddress(data.originals[data.original[row]]));
      const alike = data.similarity[row];
      const rule = data.rules[data.rule[row]];
      if (rule) original.append(make("div", { class: "muted" }, rule));
      return make("tr", {}, page, original,
        make("td", { class: "n", "data-label": "bits" }, String(data.distance[row] ?? "–")),
        make("td", { class: "n", "data-label": "alike" }, alike === null ? "–" : alike.toFixed(2)),
        make("td", { class: "n" }, writeTime(data.time[row])));
    }

    makeOpener(pair) {
      const button = make("button", { type: "button", class: "open" }, "difference");
      button.addEventListener("click", () => {
        const details = byId(`pair-${pair}`);
        for (let outer = details; outer; outer = outer.parentElement.closest("details")) outer.open = true;
        details.scrollIntoView();
        details.querySelector("summary").focus({ preventScroll: true });
      });
      return button;
    }
  }

  readData().then((data) => {
    prepareDifferences(data.pairs);
    prepareForPaper(data.pairs);
    if (data.table) new Table(data.table);
    document.documentElement.dataset.ready = "";
  }).catch((error) => {
    const text = `The data of this file cannot be read by this browser: ${error}`;
    byId("content").prepend(make("p", { class: "note" }, text));
  });
})();
