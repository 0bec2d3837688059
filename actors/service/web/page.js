// What all views share: the place for their content, the line for faults, and questions that are
// asked again and again.
import { faultText, viewSignal } from "./api.js";
import { element } from "./dom.js";

const REFRESH_MS = 2000;

export const main = document.getElementById("main");
const fault = document.getElementById("fault");
const done = document.getElementById("done");

export const OVER = new Set(["finished", "failed", "cancelled", "timed-out"]);

// Who uses the page; set by app.js before any view is shown.
export const user = { identity: null, onExpired: () => {} };
export const may = (...roles) => roles.includes(user.identity.role);
export const mayChangeJobs = () => user.identity.role !== "view";

export function showFault(text) {
  fault.textContent = text ?? "";
  fault.hidden = !text;
}

// Says what was done; the next view or fault takes its place.
export function showDone(text) {
  done.textContent = text ?? "";
  done.hidden = !text;
}

// Does something for the user, and says whether it worked.
export async function attempt(act, success) {
  showDone("");
  try {
    await act();
    showFault("");
    if (success) showDone(success);
    return true;
  } catch (error) {
    showFault(error.status ? error.message : "The head does not answer. Nothing was done.");
    return false;
  }
}

export const heading = (...content) => element("h2", {}, ...content);

export function showMissing(what, link, text) {
  main.replaceChildren(heading(what), element("p", { role: "alert" }, text, " ", link));
}

// Calls `update` now and again, until the view is left or `update` returns true. A head that
// restarts is waited for. `onMissing` is called if the head knows no such thing. An update that
// lasts calls its argument as soon as the head has answered.
export function repeat(update, { ms = REFRESH_MS, onMissing } = {}) {
  const signal = viewSignal();
  let failed = false;
  // The fault of another request stays.
  const answered = () => {
    if (failed) showFault("");
    failed = false;
  };
  const turn = async () => {
    if (signal.aborted) return;
    try {
      if (await update(answered)) return;
      answered();
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) return user.onExpired();
      if (error.status === 404 && onMissing) return onMissing(error);
      failed = true;
      showFault(faultText(error));
      if (error.status === 404) return;
    }
    setTimeout(turn, ms);
  };
  turn();
}
