// The session view: asks the server through the extension, and shows the session's state and events.

import "./view.css";
import { Composer, type Item } from "./composer";
import { button, diffOf, h } from "./dom";
import type { ConfigOption, Envelope, Event, FromView, OpenedSession, QueuedMessage, Status, ToView } from "./protocol";
import { type Part, Session } from "./session";
import { Transcript } from "./transcript";

declare function acquireVsCodeApi(): {
  postMessage(message: FromView): void;
  getState(): { draft?: string } | undefined;
  setState(state: { draft?: string }): void;
};

const vscode = acquireVsCodeApi();
const session = new Session();
const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
let requests = 0;
/** Events that arrive while a session is being opened. */
let early: Envelope[] | undefined;
/** The last opening; one after another. */
let opening: Promise<unknown> = Promise.resolve();
let reviewed: Record<string, number> = {};

/** Characters of an answer that a screen reader reads unasked. */
const MAX_ANNOUNCED = 500;

class RequestError extends Error {
  /** A code of `docs/formats/errors.md`. */
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined) {
    super(message);
    this.code = code;
  }
}

function request<T>(method: string, params: object = {}): Promise<T> {
  requests += 1;
  const id = requests;
  vscode.postMessage({ type: "request", id, method: `pilcrow/${method}`, params });
  return new Promise<T>((resolve, reject) => waiting.set(id, { resolve, reject }));
}

/** Sends a request about the session, and shows its error. */
async function ask<T>(method: string, params: object = {}): Promise<T | undefined> {
  try {
    return await request<T>(method, { session: session.id, cwd: session.cwd || undefined, ...params });
  } catch (error) {
    showError((error as Error).message);
    return undefined;
  }
}

// The parts of the view.

const banner = h("div", { className: "banner", role: "status", hidden: true });
const announcer = h("div", { className: "hidden", role: "status", "aria-live": "polite" });
const plan = h("details", { className: "plan", open: true, hidden: true });
const questions = h("section", { className: "questions", "aria-label": "Questions" });
const queue = h("section", { className: "queue", "aria-label": "Queued messages" });
const review = h("section", { className: "review", "aria-label": "Review", hidden: true });
const options = h("div", { className: "options", role: "group", "aria-label": "Options" });
const status = h("div", { className: "status", role: "status", "aria-live": "off" });
const transcript = new Transcript(session, {
  openFile: (path) => vscode.postMessage({ type: "openFile", path }),
  fork: (message_id) => void show(() => ask<OpenedSession>("session/fork", { message_id })),
  restore: (message_id, into) => void showRestore(message_id, into),
});
const composer = new Composer(
  {
    send: async (text, delivery, context, images) => Boolean(await ask("prompt", { text, delivery, context, images })),
    stop: () => void ask("cancel"),
    complete: async (query) => {
      const found = await request<{ items: Item[] }>("context/complete", {
        query,
        cwd: session.cwd || undefined,
      }).catch(() => undefined);
      return found?.items ?? [];
    },
  },
  vscode.getState()?.draft ?? "",
  (draft) => vscode.setState({ draft }),
);
const footer = h("footer", {}, questions, review, queue, composer.element, options, status);
document.body.append(banner, plan, transcript.element, footer, announcer);

// Rendering, at most once a frame.

const stale = new Set<Part>();

function invalidate(...parts: Part[]): void {
  if (stale.size === 0 && parts.length > 0) {
    requestAnimationFrame(render);
  }
  parts.forEach((part) => stale.add(part));
}

function render(): void {
  const parts = new Set(stale);
  stale.clear();
  if (parts.has("entries")) transcript.render();
  if (parts.has("queue")) renderQueue();
  if (parts.has("plan")) renderPlan();
  if (parts.has("questions")) renderQuestions();
  if (parts.has("options")) renderOptions();
  if (parts.has("run")) {
    composer.setRunning(session.isRunning);
    document.body.classList.toggle("running", session.isRunning);
    transcript.element.setAttribute("aria-busy", String(session.isRunning));
    renderReview();
  }
}

function renderPlan(): void {
  const steps = session.plan;
  const done = steps.filter((step) => step.status === "done").length;
  plan.hidden = steps.length === 0;
  const rows = steps.map((step) =>
    h(
      "li",
      { className: step.status },
      h("span", { className: "mark", role: "img", "aria-label": step.status }, { done: "✓", active: "▸", pending: "○" }[step.status]),
      step.text,
    ),
  );
  plan.replaceChildren(h("summary", {}, `Plan: ${done} of ${steps.length}`), h("ol", {}, ...rows));
}

const ANSWERS: Record<string, string> = { once: "Allow", session: "Allow for Session", always: "Always Allow", no: "Deny" };

function renderQuestions(): void {
  const shown = new Set([...session.questions.keys()]);
  for (const card of [...questions.children] as HTMLElement[]) {
    if (!shown.delete(card.dataset.id ?? "")) {
      keepFocus(card);
      card.remove();
    }
  }
  for (const id of shown) {
    const event = session.questions.get(id);
    if (event) {
      const card = event.type === "permission_request" ? permissionCard(event) : inputCard(event);
      card.dataset.id = id;
      questions.append(card);
      announce(event.title ?? event.question);
    }
  }
}

function permissionCard(event: Event): HTMLElement {
  const { request_id } = event;
  const reason = h("input", { type: "text", placeholder: "Reason for a refusal (optional)", "aria-label": "Reason for a refusal" });
  const answer = (value: string): void =>
    void ask("permission", { request_id, answer: value, text: value === "no" && reason.value ? reason.value : undefined });
  const names = event.answers as string[];
  const buttons = names.map((name) =>
    button(ANSWERS[name] ?? name, () => answer(name), { className: name === "once" ? "" : "secondary" }),
  );
  reason.addEventListener("keydown", (key) => {
    if (key.key === "Enter" && names.includes("no")) {
      answer("no");
    }
  });
  return h(
    "section",
    { className: "card", role: "group", "aria-label": event.title },
    h("h3", {}, event.title),
    event.detail ? (event.kind === "write" ? diffOf(event.detail) : h("pre", { tabIndex: 0 }, event.detail)) : undefined,
    h("div", { className: "row" }, ...buttons),
    reason,
  );
}

function inputCard(event: Event): HTMLElement {
  const { request_id } = event;
  const answer = (text?: string): void => void ask("input", { request_id, answer: text });
  const other = h("input", { type: "text", placeholder: "Another answer", "aria-label": "Another answer" });
  other.addEventListener("keydown", (key) => {
    if (key.key === "Enter" && other.value.trim()) {
      answer(other.value.trim());
    }
  });
  const choices = (event.options as string[]).map((option) => button(option, () => answer(option), { className: "secondary" }));
  return h(
    "section",
    { className: "card", role: "group", "aria-label": event.question },
    h("h3", {}, event.question),
    h("div", { className: "row" }, ...choices),
    other,
    h("div", { className: "row" }, button("Dismiss", () => answer(), { className: "link" })),
  );
}

/** Moves the focus to the prompt before its element is removed. */
function keepFocus(removed: HTMLElement): void {
  if (removed.contains(document.activeElement)) {
    composer.focus();
  }
}

/** The queued message that the user edits. */
let edited: { id: string; row: HTMLElement } | undefined;

function renderQueue(): void {
  const rows = session.queue.map((message, index) => {
    const isEdited = edited?.id === message.message_id;
    return isEdited && edited ? edited.row : queueRow(message, session.queue[index - 1]);
  });
  if (!edited || !rows.includes(edited.row)) {
    edited = undefined;
    keepFocus(queue);
    queue.replaceChildren(...rows);
  } else {
    // The row of the editor stays where it is, so that it keeps the focus.
    const { row } = edited;
    const at = rows.indexOf(row);
    [...queue.children].filter((child) => child !== row).forEach((child) => child.remove());
    row.before(...rows.slice(0, at));
    row.after(...rows.slice(at + 1));
  }
  queue.hidden = rows.length === 0;
}

function queueRow(message: QueuedMessage, above: QueuedMessage | undefined): HTMLElement {
  const { message_id, text } = message;
  const edit = (change: object): void => void ask("queue/edit", { message_id, ...change });
  const how = message.queue === "steering" ? "After this turn" : "After the run";
  const row = h(
    "div",
    { className: "queued", role: "group", "aria-label": `Queued: ${text}` },
    h("span", { className: "how" }, how),
    h("span", { className: "what" }, text),
    h(
      "div",
      { className: "row" },
      button("Edit", startEdit, { className: "link" }),
      above?.queue === message.queue &&
        button("Up", () => edit({ before: above.message_id }), { className: "link", "aria-label": "Move up" }),
      button("Send now", () => edit({ delivery: "interrupt" }), { className: "link" }),
      button("Remove", () => void ask("queue/remove", { message_id }), { className: "link" }),
    ),
  );
  function startEdit(): void {
    const input = h("textarea", { rows: 2, value: text, "aria-label": "Queued message" });
    const close = (): void => {
      edited = undefined;
      renderQueue();
    };
    const save = (): void => {
      edited = undefined;
      edit({ text: input.value });
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        close();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        save();
      }
    });
    edited = { id: message_id, row };
    row.replaceChildren(
      input,
      h(
        "div",
        { className: "row" },
        button("Save", save),
        button("Cancel", close, { className: "secondary" }),
      ),
    );
    input.focus();
  }
  return row;
}

function renderOptions(): void {
  const choices = session.options.filter((option) => option.options.length > 1 || option.id === "model");
  options.replaceChildren(
    ...choices.map((option) => {
      const listed = option.options.some((it) => it.value === option.currentValue);
      const values = listed ? option.options : [{ value: option.currentValue, name: option.currentValue }, ...option.options];
      const select = h(
        "select",
        { title: option.name, "aria-label": option.name },
        ...values.map(({ value, name }) =>
          h("option", { value, selected: value === option.currentValue }, option.id === "model" ? name : `${option.name}: ${name}`),
        ),
      );
      select.addEventListener("change", () => void setOption(option, select.value));
      return select;
    }),
  );
}

async function setOption({ id }: ConfigOption, value: string): Promise<void> {
  const answer = await ask<{ options: ConfigOption[] }>("session/setOption", { option: id, value });
  session.options = answer?.options ?? session.options;
  invalidate("options");
}

function renderReview(): void {
  const files = reviewed[session.id] ?? 0;
  review.hidden = files === 0;
  const send = (action: "openAll" | "keepAll" | "rejectAll") => () =>
    vscode.postMessage({ type: "review", action, session: session.id });
  review.replaceChildren(
    h("span", {}, files === 1 ? "1 file to review" : `${files} files to review`),
    h("span", { className: "space" }),
    button("Review", send("openAll"), { className: "link" }),
    button("Keep", send("keepAll"), { className: "link", "aria-label": "Keep all", title: "Keep all changes" }),
    button("Reject", send("rejectAll"), { className: "link", "aria-label": "Reject all", title: "Reject all changes" }),
  );
}

interface Preview {
  files: string[];
  diff: string;
  conflicts: { path: string; reason: string }[];
}

interface Restored {
  files: string[];
  conflicts: { path: string; reason: string }[];
  prompt?: string;
  undo: object;
}

async function showRestore(message_id: string, into: HTMLElement): Promise<void> {
  const preview = await ask<Preview>("checkpoint/preview", { message_id });
  if (!preview) {
    return;
  }
  const close = (): void => into.replaceChildren();
  const restore = async (scope: "files" | "conversation" | "both"): Promise<void> => {
    const restored = await ask<Restored>("checkpoint/restore", { message_id, restore: scope });
    if (restored) {
      close();
      await afterRestore(restored);
    }
  };
  const count = preview.files.length;
  const card = h(
    "section",
    { className: "card", role: "group", "aria-label": "Restore" },
    h("h3", {}, "Restore to before this message"),
    h("p", {}, count === 0 ? "No file changed since." : count === 1 ? "1 file changes:" : `${count} files change:`),
    count > 0 && diffOf(preview.diff),
    conflictList(preview.conflicts),
    h(
      "div",
      { className: "row" },
      count > 0 && button("Files", () => void restore("files")),
      button("Conversation", () => void restore("conversation"), { className: count > 0 ? "secondary" : "" }),
      count > 0 && button("Both", () => void restore("both"), { className: "secondary" }),
      button("Cancel", close, { className: "link" }),
    ),
  );
  into.replaceChildren(card);
  card.querySelector("button")?.focus();
}

function conflictList(conflicts: { path: string; reason: string }[]): HTMLElement | undefined {
  const rows = conflicts.map(({ path, reason }) => h("li", {}, `${path}: ${reason}`));
  return rows.length > 0 ? h("div", { className: "error" }, "These changes stay:", h("ul", {}, ...rows)) : undefined;
}

async function afterRestore(restored: Restored): Promise<void> {
  if (restored.prompt !== undefined) {
    composer.setText(restored.prompt);
  }
  await reopen();
  const undo = button("Undo", () => void revert(), { className: "link" });
  async function revert(): Promise<void> {
    if (await ask("checkpoint/undo", { undo: restored.undo })) {
      banner.hidden = true;
      composer.removeText(restored.prompt ?? "");
      await reopen();
    }
  }
  const dismiss = button("Dismiss", () => (banner.hidden = true), { className: "link" });
  showBanner("Restored.", conflictList(restored.conflicts), undo, dismiss);
}

async function showStatus(): Promise<void> {
  const said = await request<Status>("status", { session: session.id, cwd: session.cwd || undefined }).catch(() => undefined);
  if (!said?.session) {
    status.replaceChildren();
    return;
  }
  const { context_used: used, context_size: size, usage } = said.session;
  const short = (tokens: number): string => (tokens < 1000 ? String(tokens) : `${Math.round(tokens / 1000)}k`);
  const parts = [
    used > 0 && (size ? `${short(used)} of ${short(size)} tokens` : `${short(used)} tokens`),
    usage.cost && `$${usage.cost.total.toFixed(2)}`,
    `sandbox: ${said.sandbox}`,
  ];
  status.textContent = parts.filter(Boolean).join(" · ");
}

async function showCheckpoints(): Promise<void> {
  type Listed = { checkpoints: { message_id: string }[] };
  const params = { session: session.id, cwd: session.cwd || undefined };
  const listed = await request<Listed>("checkpoint/list", params).catch(() => undefined);
  transcript.setCheckpoints(listed?.checkpoints.map((it) => it.message_id) ?? []);
}

function announce(text: string): void {
  announcer.textContent = text;
}

function showBanner(...content: (Node | string | undefined)[]): void {
  banner.replaceChildren(...content.filter((it) => it !== undefined));
  banner.hidden = false;
}

function showError(text: string): undefined {
  const dismiss = button("Dismiss", () => (banner.hidden = true), { className: "link" });
  showBanner(h("span", { className: "error" }, text), dismiss);
}

// Opening a session, and its events.

/** Shows the session of an answer; false if there is none. */
async function show(answer: () => Promise<OpenedSession | undefined>): Promise<boolean> {
  const shown = opening.then(async () => {
    early = [];
    const view = await answer();
    const arrived = early;
    early = undefined;
    if (view) {
      load(view);
    }
    arrived.forEach(onEvent);
    return view !== undefined;
  });
  opening = shown.catch(() => undefined);
  const isShown = await shown;
  if (isShown) {
    await Promise.all([showStatus(), showCheckpoints()]);
  }
  return isShown;
}

function load(view: OpenedSession): void {
  if (session.id && session.id !== view.session && !session.isRunning) {
    // Another process may continue it.
    void request("session/close", { session: session.id }).catch(() => undefined);
  }
  session.load(view);
  vscode.postMessage({ type: "session", session: session.id, cwd: session.cwd, title: session.title });
  invalidate("entries", "queue", "plan", "questions", "run", "options");
  composer.setEnabled(true);
}

function reopen(): Promise<boolean> {
  return show(() => ask<OpenedSession>("session/open"));
}

/** Opens a session, else a new one. */
async function open(id: string | undefined, cwd: string | undefined): Promise<void> {
  // A session without a message is not stored.
  const failed = (error: RequestError): undefined => (error.code === "not_found" ? undefined : showError(error.message));
  if (id !== undefined) {
    const since = id === session.id ? session.seq : undefined;
    if (await show(() => request<OpenedSession>("session/open", { session: id, cwd, since }).catch(failed))) {
      return;
    }
  }
  await show(() => request<OpenedSession>("session/new", { cwd }).catch(failed));
}

function onEvent(envelope: Envelope): void {
  if (early) {
    early.push(envelope);
    return;
  }
  if (envelope.session_id !== session.id) {
    return;
  }
  const { event } = envelope;
  invalidate(...session.apply(envelope.seq, event));
  switch (event.type) {
    case "agent_start":
      announce("Pilcrow works");
      void showTitle();
      void showCheckpoints();
      break;
    case "agent_settled":
      announce(`Pilcrow is done. ${session.lastAnswer().slice(0, MAX_ANNOUNCED)}`);
      void showCheckpoints();
      void showStatus();
      break;
    case "turn_end":
      void showStatus();
      break;
    case "transcript_replaced":
      void reopen();
      break;
    case "model_change":
    case "thinking_level_change":
      void ask<OpenedSession>("session/open", { since: session.seq }).then((view) => {
        session.options = view?.options ?? session.options;
        invalidate("options");
      });
  }
}

/** The server names a session after its first message. */
async function showTitle(): Promise<void> {
  type Listed = { sessions: { session: string; title: string }[] };
  const listed = await request<Listed>("session/list", { cwd: session.cwd || undefined }).catch(() => undefined);
  session.title = listed?.sessions.find((it) => it.session === session.id)?.title ?? session.title;
  vscode.postMessage({ type: "session", session: session.id, cwd: session.cwd, title: session.title });
}

window.addEventListener("message", ({ data }: MessageEvent<ToView>) => {
  switch (data.type) {
    case "answer": {
      const { id, result, error, code } = data;
      const pending = waiting.get(id);
      waiting.delete(id);
      if (error !== undefined) {
        pending?.reject(new RequestError(error, code));
      } else {
        pending?.resolve(result as never);
      }
      break;
    }
    case "event":
      onEvent(data.envelope);
      break;
    case "connected":
      banner.hidden = true;
      void open(session.id || data.session, session.cwd || data.cwd);
      break;
    case "disconnected":
      composer.setEnabled(false);
      showBanner("Pilcrow's server does not run. The session continues once it does.");
      break;
    case "open":
      void open(data.session, data.cwd).then(() => composer.focus());
      break;
    case "attach":
      composer.attach(data);
      break;
    case "reviewed":
      reviewed = data.files;
      renderReview();
  }
});

composer.setEnabled(false);
vscode.postMessage({ type: "ready" });
