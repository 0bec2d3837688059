// The configuration of a job: its job file as fields, and how it differs from that of others.
import { element, jobLink, note, table } from "./dom.js";

// The fields of a job file as the head writes it: ["model.name", "small_cnn"], ... The tables of a
// list are counted: "stages.1.steps".
export function fieldsOf(toml) {
  const fields = new Map(), counts = new Map();
  let prefix = "", key = null;
  for (const line of toml.split("\n")) {
    const list = /^\[\[(.+)\]\]$/.exec(line.trim()), head = /^\[([^[\]]+)\]$/.exec(line.trim());
    const entry = /^([\w."-]+) *= *(.*)$/.exec(line);
    if (list) {
      counts.set(list[1], (counts.get(list[1]) ?? 0) + 1);
      prefix = `${list[1]}.${counts.get(list[1])}.`;
    } else if (head) {
      prefix = `${head[1]}.`;
    } else if (entry) {
      key = prefix + entry[1];
      fields.set(key, entry[2]);
    } else if (line.trim() && key) {
      // The rest of a value that has several lines.
      fields.set(key, `${fields.get(key)} ${line.trim()}`);
    }
  }
  return fields;
}

// The names of all fields, those that only some jobs have at the end.
function namesOf(all) {
  return [...new Set(all.flatMap((fields) => [...fields.keys()]))];
}

// A table with the fields of several jobs that are not the same in all of them.
export function differences(jobs) {
  const all = jobs.map((job) => fieldsOf(job.spec_toml));
  const differ = namesOf(all).filter((name) =>
    new Set(all.map((fields) => fields.get(name))).size > 1);
  if (differ.length === 0) return note("All fields of the configurations are equal.");
  const columns = [["field", "field"], ...jobs.map((job) => [jobLink(job.job), "wide"])];
  return table("Differences", columns,
    differ.map((name) => [name, ...all.map((fields) => valueCell(fields.get(name)))]));
}

const valueCell = (value) =>
  value === undefined ? element("span", { class: "note" }, "absent") : element("code", {}, value);

// All fields, with a search.
export function fieldTable(job) {
  const place = element("div");
  const draw = (text) => {
    const rows = [...fieldsOf(job.spec_toml)].filter(([name]) => name.includes(text));
    place.replaceChildren(rows.length === 0 ? note("No field has this in its name.")
      : table("Configuration", [["field", "field"], ["value", "wide"]],
        rows.map(([name, value]) => [name, valueCell(value)])));
  };
  const search = element("input", { type: "search", oninput: () => draw(search.value.trim()) });
  draw("");
  return element("div", {}, element("div", { class: "row" },
    element("label", {}, "Field", search)), place);
}
