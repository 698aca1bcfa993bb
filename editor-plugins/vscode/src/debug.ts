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

const sessions = new Map<string, vscode.DebugSession>();
// What the agent asked and the tracker has not seen yet: it is not told as the person's.
const own = new Map<string, string[]>();

export function follow(client: () => LanguageClient | undefined): vscode.Disposable {
  const tell = (session: vscode.DebugSession, what: object): void => {
    void client()
      ?.sendNotification("pilcrow/debug/event", { session: session.id, ...what })
      .catch(() => undefined);
  };
  return vscode.debug.registerDebugAdapterTrackerFactory("*", {
    createDebugAdapterTracker(session) {
      if (session.type === "pilcrow") {
        return undefined;
      }
      sessions.set(session.id, session);
      own.delete(session.id);
      const uri = session.workspaceFolder?.uri.toString();
      const ours = new Set<unknown>();
      tell(session, { started: { name: session.name, type: session.type, uri } });
      const ended = (): void => {
        if (sessions.delete(session.id)) {
          own.delete(session.id);
          tell(session, { ended: true });
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
    const session = sessions.get(asked.session);
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
