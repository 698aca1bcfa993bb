// The objects of the session service that the view shows (docs/protocols/language-server.md), and the
// messages between the view and the extension.

export interface Envelope {
  session_id: string;
  seq: number;
  event: Event;
}

export interface Event {
  type: string;
  [field: string]: any;
}

export type Block =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "image"; data: string; mimeType: string }
  | { type: "toolCall"; id: string; name: string; arguments?: unknown; partial?: string };

export interface Message {
  role: string;
  content: Block[] | string;
  toolCallId?: string;
  details?: { diff?: string } | null;
  isError?: boolean;
  errorMessage?: string;
}

export interface StoredMessage {
  message_id: string;
  message: Message;
}

export interface QueuedMessage {
  message_id: string;
  queue: "steering" | "follow_up";
  text: string;
}

export interface PlanStep {
  text: string;
  status: "pending" | "active" | "done";
}

export interface ConfigOption {
  id: string;
  name: string;
  currentValue: string;
  options: { value: string; name: string }[];
}

export interface State {
  title: string;
  running: boolean;
  compacting: boolean;
  messages: StoredMessage[];
  partial?: StoredMessage;
  pending_calls: string[];
  queue: QueuedMessage[];
  plan: PlanStep[];
  questions: Event[];
  error?: string;
}

export interface OpenedSession {
  session: string;
  cwd: string;
  seq: number;
  events?: Envelope[];
  state?: State;
  options: ConfigOption[];
}

export interface Status {
  session?: {
    model: string;
    context_used: number;
    context_size?: number;
    usage: { totalTokens: number; cost?: { total: number } };
  };
  sandbox: string;
}

/** From the view to the extension. */
export type FromView =
  | { type: "ready" }
  | { type: "request"; id: number; method: string; params: object }
  | { type: "session"; session: string; cwd: string; title: string }
  | { type: "review"; action: "openAll" | "keepAll" | "rejectAll"; session: string }
  | { type: "openFile"; path: string };

/** From the extension to the view. */
export type ToView =
  | { type: "answer"; id: number; result?: unknown; error?: string; code?: string }
  | { type: "event"; envelope: Envelope }
  | { type: "connected"; session?: string; cwd?: string }
  | { type: "disconnected" }
  | { type: "open"; session?: string; cwd?: string }
  | { type: "attach"; name: string; uri: string }
  | { type: "reviewed"; files: Record<string, number> };
