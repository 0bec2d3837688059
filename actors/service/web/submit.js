// The form that submits a job.
import { get, jobPath, post } from "./api.js";
import { element, note } from "./dom.js";
import { heading, main, mayChangeJobs, showFault } from "./page.js";

// The same id is sent until the job is made, so a lost answer makes no second job.
const newId = () => [...crypto.getRandomValues(new Uint8Array(16))]
  .map((byte) => byte.toString(16).padStart(2, "0")).join("");

class SubmitForm {
  constructor() {
    this.id = newId();
    this.spec = element("textarea", {
      rows: 24, required: true, spellcheck: "false", oninput: () => { this.id = newId(); },
    });
    this.file = element("input", { type: "file", accept: ".toml", onchange: () => this.load() });
    this.checkpoint = element("input", { placeholder: "a directory; empty: from the seed" });
    this.send = element("button", { class: "filled" }, "Submit");
    this.fault = element("p", { class: "fault", role: "alert", hidden: true });
    this.form = element("form", { class: "submit", onsubmit: (event) => {
      event.preventDefault();
      this.submit();
    } }, element("label", {}, "Read a job file", this.file),
    element("label", {}, "Job file (TOML)", this.spec),
    element("label", {}, "Begin with a checkpoint", this.checkpoint), this.fault,
    element("div", { class: "row" }, this.send));
  }

  async load() {
    const [file] = this.file.files;
    if (file) this.set(await file.text());
  }

  set(text) {
    this.spec.value = text;
    this.id = newId();
  }

  say(text) {
    this.fault.textContent = text;
    this.fault.hidden = !text;
  }

  async submit() {
    this.send.disabled = true;
    this.say("");
    try {
      const answer = await post("/api/v1/jobs", {
        spec_toml: this.spec.value, from_checkpoint: this.checkpoint.value.trim(),
        request_id: this.id,
      });
      location.hash = `#/jobs/${encodeURIComponent((await answer.json()).job)}`;
    } catch (error) {
      this.say(error.status ? error.message
        : "The head does not answer. Submit again: the job is made once.");
    } finally {
      this.send.disabled = false;
    }
  }
}

// The job file of another job, to be changed.
async function fillLike(form, job) {
  try {
    form.set((await get(jobPath(job))).spec_toml);
  } catch (error) {
    if (error.name !== "AbortError") showFault(error.message);
  }
}

export function submitPage(like) {
  if (!mayChangeJobs()) {
    main.replaceChildren(heading("Submit a job"), note("The role of this token may only look."));
    return;
  }
  const form = new SubmitForm();
  main.replaceChildren(heading("Submit a job"),
    note(like ? `This is the job file of ${like}; change what is to be different.`
      : "Paths in the file are absolute, and name files that the nodes can read."), form.form);
  if (like) fillLike(form, like);
}
