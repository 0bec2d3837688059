// The web page of a head. It shows what the API says (openapi.json) and needs nothing else. This
// file has the token, and the views by the hash of the address.
import { faultText, get, hasToken, leaveView, setToken } from "./api.js";
import { element } from "./dom.js";
import { clusterPage, nodePage } from "./cluster.js";
import { comparePage } from "./compare.js";
import { jobPage } from "./job.js";
import { jobsPage } from "./jobs.js";
import { heading, main, mayChangeJobs, showDone, showFault, showMissing, user } from "./page.js";
import { schedulerPage } from "./scheduler.js";
import { submitPage } from "./submit.js";

const RETRY_MS = 2000;

function showLogin() {
  const field = element("input", {
    type: "password", autocomplete: "current-password", required: true,
  });
  main.replaceChildren(heading("Token"),
    element("form", {
      class: "row",
      onsubmit: async (event) => {
        event.preventDefault();
        setToken(field.value.trim());
        await start();
      },
    }, element("label", {}, "Token of this head", field), element("button", {}, "Enter")),
    element("p", { class: "note" }, "An administrator makes one with ",
      element("code", {}, "esctl token add NAME --role view"), "."));
  field.focus();
}

// The views by the first part of the hash; the other parts are their arguments.
const VIEWS = {
  "": jobsPage,
  jobs: (job, part) => job ? jobPage(job, part) : jobsPage(),
  compare: (...jobs) => comparePage(jobs),
  submit: (like) => submitPage(like),
  cluster: (part) => clusterPage(part),
  nodes: (node, device) => node ? nodePage(node, device) : clusterPage("nodes"),
  scheduler: (part) => schedulerPage(part),
};

// The parts of the hash, or null if it is no address.
function hashParts() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
}

function markLinks(view) {
  const shown = { nodes: "cluster", compare: "jobs", "": "jobs" }[view] ?? view;
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.hash === `#/${shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function show() {
  leaveView();
  showFault("");
  showDone("");
  const [view, ...rest] = hashParts() ?? [null];
  markLinks(view);
  document.title = [...rest.slice(0, 1).filter(Boolean), "EasyScale"].join(" – ");
  if (Object.hasOwn(VIEWS, view ?? "none")) return VIEWS[view](...rest.filter(Boolean));
  showMissing("There is no such page", element("a", { href: "#/jobs" }, "All jobs"),
    "This address leads nowhere.");
}

async function start() {
  leaveView();
  try {
    user.identity = await get("/api/v1/identity");
  } catch (error) {
    if (error.status !== 401) {
      showFault(faultText(error));
      setTimeout(start, RETRY_MS);
      return;
    }
    if (hasToken()) showFault("This token is not valid.");
    showLogin();
    return;
  }
  const { name, role, tenant } = user.identity;
  const rights = [role, tenant].filter(Boolean).join(", ");
  document.getElementById("who").textContent = `${name} (${rights})`;
  document.getElementById("submit").hidden = !mayChangeJobs();
  show();
}

user.onExpired = showLogin;
// The hash of the address names the view, so this link cannot be one inside of the page.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  if (!user.identity) return;
  show();
  main.focus({ preventScroll: true });
});
start();
