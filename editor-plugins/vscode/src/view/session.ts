// The session as the view shows it: the state of `pilcrow/session/open`, and the events since.

import type { Block, ConfigOption, Event, Message, OpenedSession, PlanStep, QueuedMessage } from "./protocol";

export interface Entry {
  id: string;
  kind: "user" | "assistant" | "notice";
  blocks: Block[];
  error?: string;
}

/** A tool call with what came back so far. */
export interface Call {
  state: "pending" | "running" | "done" | "failed";
  output: string;
  diff?: string;
  duration?: number;
}

/** A part of the view that an event changes. */
export type Part = "entries" | "queue" | "plan" | "questions" | "run" | "options";

export class Session {
  id = "";
  cwd = "";
  seq = 0;
  title = "";
  isRunning = false;
  entries: Entry[] = [];
  calls = new Map<string, Call>();
  queue: QueuedMessage[] = [];
  plan: PlanStep[] = [];
  questions = new Map<string, Event>();
  options: ConfigOption[] = [];
  /** Entries that changed since they were rendered; undefined: all. */
  changed: Set<Entry> | undefined;
  private byId = new Map<string, Entry>();
  private callEntries = new Map<string, Entry>();
  private notices = 0;

  /** Applies the answer of `session/open`, `new` or `fork`. */
  load(opened: OpenedSession): void {
    this.id = opened.session;
    this.cwd = opened.cwd;
    this.options = opened.options;
    if (opened.state) {
      this.reset();
      const { state } = opened;
      this.title = state.title;
      this.isRunning = state.running || state.compacting;
      this.queue = state.queue;
      this.plan = state.plan;
      state.messages.forEach((it) => this.put(it.message_id, it.message));
      if (state.partial) {
        this.put(state.partial.message_id, state.partial.message);
      }
      const pending = new Set(state.pending_calls);
      for (const [id, call] of this.calls) {
        if (call.state === "pending") {
          call.state = pending.has(id) && state.running ? "running" : "failed";
        }
      }
      state.questions.forEach((event) => this.questions.set(event.request_id, event));
      if (state.error && !this.entries.at(-1)?.error) {
        this.notice(state.error, true);
      }
      this.seq = opened.seq;
    }
    opened.events?.forEach(({ seq, event }) => this.apply(seq, event));
    this.seq = Math.max(this.seq, opened.seq);
  }

  /** Applies an event that is new; returns the parts that it changes. */
  apply(seq: number, event: Event): Part[] {
    if (seq <= this.seq) {
      return [];
    }
    this.seq = seq;
    switch (event.type) {
      case "agent_start":
      case "compaction_start":
        this.isRunning = true;
        return ["run"];
      case "agent_end":
        if (event.error && !this.entries.at(-1)?.error) {
          this.notice(event.error, true);
        } else if (event.reason === "aborted") {
          this.notice("Stopped.");
        }
        return ["entries"];
      case "agent_settled":
        this.isRunning = false;
        return ["run", "questions"];
      case "message_start":
        this.put(event.message_id, event.message ?? { role: event.role, content: [] });
        return ["entries"];
      case "message_end":
        this.put(event.message_id, event.message);
        return ["entries"];
      case "message_update":
        this.update(event.message_id, event.update);
        return ["entries"];
      case "custom_message":
        return [];
      case "tool_execution_start":
        this.call(event.tool_call_id, { state: "running" });
        return ["entries"];
      case "tool_execution_update": {
        const { output } = this.call(event.tool_call_id, {});
        const more = event.update_type === "progress" ? `${event.content}\n` : event.content;
        this.call(event.tool_call_id, { output: (output + more).slice(-MAX_OUTPUT) });
        return ["entries"];
      }
      case "tool_execution_end":
        this.call(event.tool_call_id, {
          state: event.is_error ? "failed" : "done",
          output: textOf(event.content),
          diff: event.details?.diff,
          duration: event.duration_ms,
        });
        return ["entries"];
      case "queue_update":
        this.queue = event.messages;
        return ["queue"];
      case "plan":
        this.plan = event.steps;
        return ["plan"];
      case "permission_request":
      case "input_request":
        this.questions.set(event.request_id, event);
        return ["questions"];
      case "permission_resolved":
      case "input_resolved":
        this.questions.delete(event.request_id);
        return ["questions"];
      case "notice":
        this.notice(event.text, event.level === "warning");
        return ["entries"];
      case "retry_start":
        this.notice(`Retry ${event.attempt} of ${event.max}: ${event.error}`);
        return ["entries"];
      case "compaction_end":
        this.notice(event.error ?? "The conversation was compacted.", Boolean(event.error));
        return ["entries"];
      case "model_change":
      case "thinking_level_change":
        return ["options"];
      default:
        return [];
    }
  }

  lastAnswer(): string {
    const entry = this.entries.findLast(({ kind }) => kind === "assistant");
    return textOf(entry?.blocks);
  }

  private reset(): void {
    this.entries = [];
    this.calls.clear();
    this.byId.clear();
    this.callEntries.clear();
    this.questions.clear();
    this.changed = undefined;
  }

  /** Adds or replaces a message. */
  private put(id: string, message: Message): void {
    const blocks = blocksOf(message);
    if (message.role === "toolResult") {
      this.call(message.toolCallId ?? "", {
        state: message.isError ? "failed" : "done",
        output: textOf(blocks),
        diff: message.details?.diff,
      });
      return;
    }
    if (message.role !== "user" && message.role !== "assistant") {
      return;
    }
    const entry = this.byId.get(id) ?? this.add({ id, kind: message.role, blocks: [] });
    entry.blocks = blocks;
    entry.error = message.errorMessage;
    this.noteCalls(entry);
    this.changed?.add(entry);
  }

  private add(entry: Entry): Entry {
    this.entries.push(entry);
    this.byId.set(entry.id, entry);
    this.changed?.add(entry);
    return entry;
  }

  private notice(text: string, isError = false): void {
    this.notices += 1;
    const entry: Entry = { id: `notice-${this.notices}`, kind: "notice", blocks: [] };
    this.add(isError ? { ...entry, error: text } : { ...entry, blocks: [{ type: "text", text }] });
  }

  private update(id: string, update: Event): void {
    const entry = this.byId.get(id);
    if (!entry) {
      return;
    }
    const { blocks } = entry;
    const { index } = update;
    const block = blocks[index];
    switch (update.type) {
      case "text_start":
        blocks[index] = { type: "text", text: "" };
        break;
      case "thinking_start":
        blocks[index] = { type: "thinking", thinking: "" };
        break;
      case "toolcall_start":
        blocks[index] = { type: "toolCall", id: update.id, name: update.name, partial: "" };
        break;
      case "text_delta":
        if (block?.type === "text") blocks[index] = { ...block, text: block.text + update.delta };
        break;
      case "thinking_delta":
        if (block?.type === "thinking") blocks[index] = { ...block, thinking: block.thinking + update.delta };
        break;
      case "toolcall_delta":
        if (block?.type === "toolCall") blocks[index] = { ...block, partial: (block.partial ?? "") + update.delta };
        break;
      case "toolcall_end":
        blocks[index] = { type: "toolCall", ...update.call };
        break;
      default:
        if (update.content) blocks[index] = update.content;
    }
    this.noteCalls(entry);
    this.changed?.add(entry);
  }

  private noteCalls(entry: Entry): void {
    for (const block of entry.blocks) {
      if (block?.type === "toolCall") {
        this.callEntries.set(block.id, entry);
        this.call(block.id, {});
      }
    }
  }

  private call(id: string, change: Partial<Call>): Call {
    const call = { ...(this.calls.get(id) ?? { state: "pending" as const, output: "" }), ...defined(change) };
    this.calls.set(id, call);
    const entry = this.callEntries.get(id);
    if (entry) {
      this.changed?.add(entry);
    }
    return call;
  }
}

/** Characters of a running command's output that are kept; its result has all that the model gets. */
const MAX_OUTPUT = 100_000;

function defined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, it]) => it !== undefined)) as T;
}

function blocksOf({ content }: Message): Block[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : [...content];
}

export function textOf(blocks: Block[] | string | undefined): string {
  if (typeof blocks === "string") {
    return blocks;
  }
  return (blocks ?? []).map((block) => (block.type === "text" ? block.text : "")).join("");
}

