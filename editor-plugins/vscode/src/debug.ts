// Debug sessions that the person starts: what passes between VS Code and the adapter is told to Pilcrow, and
// what the agent asks goes through VS Code. Sessions of the agent's own are joined, not told.

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

interface Message {
  type: string;
  event?: string;
  command?: string;
  arguments?: unknown;
}

interface Asked {
  session: string;
  command: string;
  arguments?: unknown;
}

// Answers that say more than that a request was carried out, and may be large, stay here.
const ANSWERS = /^(initialize|continue|next|step|reverse|restart|goto|pause|terminate|disconnect|set|write)/;

// Beyond so many messages a session is not told again to a server that comes later.
const KEPT = 4000;

interface Followed {
  session: vscode.DebugSession;
  // What was told so far, without output; undefined when that is too much.
  told: object[] | undefined;
}

const sessions = new Map<string, Followed>();
let server: LanguageClient | undefined;
// What the agent asked and the tracker has not seen yet: it is not told as the person's.
const own = new Map<string, string[]>();

// A server that runs is told of all sessions from their beginning; `undefined` when it ends.
export function tellTo(client: LanguageClient | undefined): void {
  server = client;
  for (const [session, { told }] of sessions) {
    told?.forEach((what) => send(session, what));
  }
}

function send(session: string, what: object): void {
  void server?.sendNotification("pilcrow/debug/event", { session, ...what }).catch(() => undefined);
}

function tell(session: vscode.DebugSession, what: { message?: Message }): void {
  const followed = sessions.get(session.id);
  if (!followed) {
    return;
  }
  if (what.message?.event !== "output") {
    followed.told?.push(what);
    if (followed.told && followed.told.length > KEPT) {
      followed.told = undefined;
    }
  }
  send(session.id, what);
}

export function follow(): vscode.Disposable {
  return vscode.debug.registerDebugAdapterTrackerFactory("*", {
    createDebugAdapterTracker(session) {
      if (session.type === "pilcrow") {
        return undefined;
      }
      sessions.set(session.id, { session, told: [] });
      own.delete(session.id);
      const uri = session.workspaceFolder?.uri.toString();
      const ours = new Set<unknown>();
      tell(session, { started: { name: session.name, type: session.type, uri, parent: session.parentSession?.id } } as object);
      const ended = (): void => {
        if (sessions.delete(session.id)) {
          own.delete(session.id);
          send(session.id, { ended: true });
        }
      };
      return {
        onWillReceiveMessage(message: Message & { seq: number }) {
          const waiting = own.get(session.id) ?? [];
          const at = waiting.indexOf(key(message.command, message.arguments));
          if (at >= 0) {
            waiting.splice(at, 1);
            ours.add(message.seq);
          } else if (message.type === "request" && ANSWERS.test(message.command ?? "")) {
            tell(session, { message });
          }
        },
        onDidSendMessage(message: Message & { request_seq: number }) {
          const answers = message.type === "response" && ANSWERS.test(message.command ?? "");
          if (message.type === "event" || (answers && !ours.delete(message.request_seq))) {
            tell(session, { message });
          }
        },
        onExit: ended,
        onWillStopSession: ended,
      };
    },
  });
}

// Registered with each new connection.
export function answer(client: LanguageClient): void {
  client.onRequest("pilcrow/debug/request", async (asked: Asked) => {
    const session = sessions.get(asked.session)?.session;
    if (!session) {
      throw new Error("this debug session is over");
    }
    if (asked.command === "terminate" || asked.command === "disconnect") {
      await vscode.debug.stopDebugging(session);
      return null;
    }
    const waiting = own.get(session.id) ?? [];
    own.set(session.id, waiting);
    const mine = key(asked.command, asked.arguments);
    waiting.push(mine);
    try {
      return (await session.customRequest(asked.command, asked.arguments)) ?? null;
    } catch (error) {
      // One that was never sent is not waited for.
      const at = waiting.indexOf(mine);
      if (at >= 0) {
        waiting.splice(at, 1);
      }
      throw error;
    }
  });
}

function key(command: string | undefined, args: unknown): string {
  return `${command} ${JSON.stringify(args ?? {})}`;
}
