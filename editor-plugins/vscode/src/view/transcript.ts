// The transcript: messages and tool calls. Renders what changed, and only the newest entries until the user
// scrolls up.

import MarkdownIt from "markdown-it";
import { button, diffOf, h } from "./dom";
import type { Block } from "./protocol";
import type { Call, Entry, Session } from "./session";

/** Number of entries rendered at first, and with each step up. */
const WINDOW = 100;
/** Characters of an output that are rendered. */
const MAX_SHOWN = 50_000;

const markdown = new MarkdownIt({ linkify: true, breaks: true }).disable("image");

export interface Actions {
  openFile(path: string): void;
  fork(messageId: string): void;
  restore(messageId: string, into: HTMLElement): void;
}

interface Rendered {
  element: HTMLElement;
  body: HTMLElement;
  /** What each block's element shows. */
  blocks: { element: HTMLElement; shown: Block; call?: Call }[];
}

export class Transcript {
  readonly element: HTMLElement;
  private readonly list: HTMLElement;
  private readonly earlier: HTMLButtonElement;
  private readonly session: Session;
  private readonly actions: Actions;
  private readonly rendered = new Map<Entry, Rendered>();
  private checkpoints = new Set<string>();
  private first = 0;
  /** Whether the end stays in view. */
  private follows = true;
  private scrolledTo = 0;

  constructor(session: Session, actions: Actions) {
    this.session = session;
    this.actions = actions;
    this.earlier = button("Show earlier messages", () => this.showEarlier(), { className: "link", hidden: true });
    this.list = h("div", { className: "entries" });
    this.element = h(
      "main",
      { className: "transcript", tabIndex: 0, role: "log", "aria-label": "Conversation", "aria-live": "off" },
      this.earlier,
      this.list,
    );
    this.element.addEventListener("click", (event) => this.followLink(event));
    this.element.addEventListener("scroll", () => this.noteScroll());
    const resized = new ResizeObserver(() => this.scroll());
    resized.observe(this.element);
    resized.observe(this.list);
    new IntersectionObserver(([it]) => it?.isIntersecting && this.first > 0 && this.showEarlier(), {
      root: this.element,
    }).observe(this.earlier);
  }

  /** Renders the entries that changed. */
  render(): void {
    const { entries, changed } = this.session;
    if (!changed) {
      this.follows = true;
      this.rendered.clear();
      this.list.replaceChildren();
      this.first = Math.max(0, entries.length - WINDOW);
      entries.slice(this.first).forEach((entry) => this.list.append(this.create(entry)));
    } else {
      for (const entry of changed) {
        if (this.rendered.has(entry)) {
          this.update(entry);
        } else if (entries.indexOf(entry, this.first) >= 0) {
          this.list.append(this.create(entry));
        }
      }
      if (this.follows && this.rendered.size > 3 * WINDOW) {
        this.trim();
      }
    }
    this.session.changed = new Set();
    this.earlier.hidden = this.first === 0;
    this.list.classList.toggle("empty", entries.length === 0);
    this.scroll();
  }

  private scroll(): void {
    if (this.follows) {
      this.element.scrollTop = this.element.scrollHeight;
      this.scrolledTo = this.element.scrollTop;
    }
  }

  /** The end is followed until the user scrolls up, and again from the end on. */
  private noteScroll(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    if (scrollHeight - scrollTop - clientHeight < 40) {
      this.follows = true;
    } else if (scrollTop < this.scrolledTo) {
      this.follows = false;
    }
    this.scrolledTo = scrollTop;
  }

  /** Shows the actions of the messages that are checkpoints. */
  setCheckpoints(ids: string[]): void {
    this.checkpoints = new Set(ids);
    this.rendered.forEach((rendered, entry) => this.showActions(entry, rendered));
  }

  private showEarlier(): void {
    const from = Math.max(0, this.first - WINDOW);
    const above = this.session.entries.slice(from, this.first).map((entry) => this.create(entry));
    this.first = from;
    const height = this.element.scrollHeight;
    this.list.prepend(...above);
    this.earlier.hidden = from === 0;
    this.element.scrollTop += this.element.scrollHeight - height;
  }

  private trim(): void {
    const { entries } = this.session;
    const first = entries.length - WINDOW;
    entries.slice(this.first, first).forEach((entry) => {
      this.rendered.get(entry)?.element.remove();
      this.rendered.delete(entry);
    });
    this.first = first;
  }

  private create(entry: Entry): HTMLElement {
    const label = { user: "You", assistant: "Pilcrow", notice: "Notice" }[entry.kind];
    const body = h("div", { className: "body" });
    const element = h("article", { className: `entry ${entry.kind}`, "aria-label": label }, body);
    const rendered = { element, body, blocks: [] };
    this.rendered.set(entry, rendered);
    this.update(entry);
    return element;
  }

  private update(entry: Entry): void {
    const rendered = this.rendered.get(entry);
    if (!rendered) {
      return;
    }
    entry.blocks.forEach((block, index) => this.updateBlock(rendered, block, index, entry));
    rendered.blocks.splice(entry.blocks.length).forEach(({ element }) => element.remove());
    rendered.element.querySelector(":scope > .error")?.remove();
    if (entry.error) {
      rendered.body.after(h("p", { className: "error", role: "alert" }, entry.error));
    }
    this.showActions(entry, rendered);
  }

  private showActions(entry: Entry, { element }: Rendered): void {
    const old = element.querySelector(":scope > .actions");
    const hasText = entry.blocks.some((block) => block?.type === "text" && block.text);
    if (entry.kind === "notice" || !hasText) {
      old?.remove();
      return;
    }
    const isCheckpoint = this.checkpoints.has(entry.id);
    if (old && old.childElementCount === (isCheckpoint ? 2 : 1)) {
      return;
    }
    old?.remove();
    const more = h("div", { className: "more" });
    const fork = button("Fork", () => this.actions.fork(entry.id), { title: "Continue from here in a new session" });
    const restore = button("Restore…", () => this.actions.restore(entry.id, more), {
      title: "Restore the files or the conversation before this message",
    });
    element.append(h("div", { className: "actions" }, isCheckpoint && restore, fork), ...(isCheckpoint ? [more] : []));
  }

  private updateBlock(rendered: Rendered, block: Block | undefined, index: number, entry: Entry): void {
    if (!block) {
      return;
    }
    const old = rendered.blocks[index];
    const call = block.type === "toolCall" ? this.session.calls.get(block.id) : undefined;
    if (old && old.shown === block && old.call === call) {
      return;
    }
    let element: HTMLElement;
    if (old && block.type === "toolCall" && old.shown.type === "toolCall") {
      element = old.element;
      showCall(element as HTMLDetailsElement, block, call);
    } else if (old && block.type === "thinking" && old.shown.type === "thinking") {
      element = old.element;
      element.lastElementChild?.replaceChildren(block.thinking);
    } else {
      element = createBlock(block, call, entry.kind);
      if (old) {
        old.element.replaceWith(element);
      } else {
        rendered.body.append(element);
      }
    }
    rendered.blocks[index] = { element, shown: block, call };
  }

  /** Opens links to files; VS Code opens the others. */
  private followLink(event: MouseEvent): void {
    const link = (event.target as Element).closest("a");
    const target = link?.getAttribute("href");
    if (target && !/^[a-z][\w+.-]*:/i.test(target)) {
      event.preventDefault();
      this.actions.openFile(decodeURI(target));
    }
  }
}

function createBlock(block: Block, call: Call | undefined, kind: Entry["kind"]): HTMLElement {
  switch (block.type) {
    case "text": {
      const element = h("div", { className: "text" });
      if (kind === "assistant") {
        element.innerHTML = markdown.render(block.text);
        element.querySelectorAll("pre").forEach(addCopy);
      } else {
        element.textContent = block.text;
      }
      return element;
    }
    case "thinking":
      return h("details", { className: "thinking" }, h("summary", {}, "Reasoning"), h("div", {}, block.thinking));
    case "image":
      return h("img", { src: `data:${block.mimeType};base64,${block.data}`, alt: "Attached image" });
    default: {
      const element = h("details", { className: "call" });
      // The parts are rendered when they are seen.
      element.addEventListener("toggle", () => fillCall(element));
      showCall(element, block, call);
      return element;
    }
  }
}

function addCopy(pre: HTMLElement): void {
  const text = pre.textContent ?? "";
  const copy = button("Copy", () => void navigator.clipboard.writeText(text), { className: "copy", "aria-label": "Copy code" });
  pre.tabIndex = 0;
  const frame = h("div", { className: "code" });
  pre.replaceWith(frame);
  frame.append(pre, copy);
}

type ToolCall = Extract<Block, { type: "toolCall" }>;
const shownCalls = new WeakMap<HTMLElement, { block: ToolCall; call?: Call }>();

function showCall(element: HTMLDetailsElement, block: ToolCall, call: Call | undefined): void {
  shownCalls.set(element, { block, call });
  const state = call?.state ?? "pending";
  element.dataset.state = state;
  const said = { pending: "preparing", running: "running", done: "done", failed: "failed" }[state];
  const seconds = call?.duration && call.duration >= 1000 ? ` ${(call.duration / 1000).toFixed(1)} s` : "";
  const summary = h(
    "summary",
    {},
    h("span", { className: "state", role: "img", "aria-label": said, title: said }),
    h("span", { className: "name" }, block.name),
    " ",
    h("span", { className: "subject" }, subjectOf(block)),
    h("span", { className: "time" }, seconds),
  );
  const old = element.querySelector(":scope > summary");
  if (old) {
    // The element stays, so that it keeps the focus.
    old.replaceChildren(...summary.childNodes);
  } else {
    element.append(summary);
  }
  fillCall(element);
}

/** Renders input, output and diff of an expanded call. */
function fillCall(element: HTMLDetailsElement): void {
  const shown = shownCalls.get(element);
  element.querySelector(":scope > .parts")?.remove();
  if (!element.open || !shown) {
    return;
  }
  const { block, call } = shown;
  const input = block.partial ?? inputOf(block.arguments);
  const part = (title: string, content: HTMLElement): HTMLElement =>
    h("section", { "aria-label": title }, h("h4", {}, title), content);
  const text = (value: string): HTMLElement => h("pre", { tabIndex: 0 }, value.slice(0, MAX_SHOWN));
  element.append(
    h(
      "div",
      { className: "parts" },
      part("Input", text(input)),
      call?.diff ? part("Diff", diffOf(call.diff.slice(0, MAX_SHOWN))) : undefined,
      call?.output ? part("Output", text(call.output)) : undefined,
    ),
  );
}

/** The arguments, a line each; texts of several lines as they are. */
function inputOf(value: unknown): string {
  if (typeof value !== "object" || value === null) {
    return JSON.stringify(value ?? {});
  }
  const show = (it: unknown): string => (typeof it === "string" ? it : JSON.stringify(it, undefined, 2));
  return Object.entries(value)
    .map(([name, it]) => (show(it).includes("\n") ? `${name}:\n${show(it)}` : `${name}: ${show(it)}`))
    .join("\n");
}

/** The first short text of the arguments, which names what the call is about. */
function subjectOf(block: ToolCall): string {
  const values = Object.values((block.arguments ?? {}) as object);
  const first = values.find((value) => typeof value === "string") as string | undefined;
  return first?.split("\n", 1)[0].slice(0, 200) ?? "";
}

