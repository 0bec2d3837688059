// The API of the head (openapi.json). Everything that the page knows comes through here.

let token = sessionStorage.getItem("token") ?? "";
// Ends the requests of the view that is being left.
let leaving = new AbortController();

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const hasToken = () => token !== "";

export function setToken(text) {
  token = text;
  sessionStorage.setItem("token", token);
}

// The signal that is aborted when the present view is left.
export const viewSignal = () => leaving.signal;

export function leaveView() {
  leaving.abort();
  leaving = new AbortController();
}

async function messageOf(answer) {
  try {
    return (await answer.json()).error ?? `status ${answer.status}`;
  } catch { /* not JSON: the status has to suffice */ }
  return `status ${answer.status}`;
}

export async function request(method, path, body, signal = leaving.signal) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method !== "GET") headers["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) return answer;
  throw new ApiError(answer.status, await messageOf(answer));
}

export const get = async (path) => (await request("GET", path)).json();
// A request that changes something goes on when its view is left.
export const post = (path, body = {}) =>
  request("POST", path, body, new AbortController().signal);
export const remove = (path) =>
  request("DELETE", path, undefined, new AbortController().signal);

export const jobPath = (job, rest = "") => `/api/v1/jobs/${encodeURIComponent(job)}${rest}`;

// One line for the user, whatever went wrong.
export const faultText = (error) =>
  error.status ? error.message : "The head does not answer. This page tries again.";

// Calls onEvent(name, data) for every event of a stream until it ends.
export async function readEvents(path, onEvent) {
  const reader = (await request("GET", path)).body
    .pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const name = /^event: (.*)$/m.exec(block)?.[1];
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (name && data) onEvent(name, JSON.parse(data));
    }
  }
}
