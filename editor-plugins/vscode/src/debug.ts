// Debug sessions that the user starts: reports the messages between VS Code and the adapter to Pilcrow, and
// sends the agent's requests through VS Code. The agent's own sessions are joined (join.ts), not reported.

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

interface Message {
  type: string;
  event?: string;
  command?: string;
  arguments?: unknown;
}

interface AgentRequest {
  session: string;
  command: string;
  arguments?: unknown;
}

// Commands whose requests and responses are reported; other responses may be large.
const REPORTED_COMMANDS = /^(initialize|continue|next|step|reverse|restart|goto|pause|terminate|disconnect|set|write)/;

// A session with more messages is not replayed to a server that starts later.
const MAX_REPLAYED = 4000;

interface FollowedSession {
  session: vscode.DebugSession;
  // Reports so far, without output; undefined if there are too many.
  reports: object[] | undefined;
}

const sessions = new Map<string, FollowedSession>();
let server: LanguageClient | undefined;
// Requests of the agent that the tracker has not seen yet; they are not reported as the user's.
const agentRequests = new Map<string, string[]>();

// Sets the server to report to, and replays all sessions to it; `undefined` when it stops.
export function reportTo(client: LanguageClient | undefined): void {
  server = client;
  for (const [session, { reports }] of sessions) {
    reports?.forEach((report) => send(session, report));
  }
}

function send(session: string, report: object): void {
  void server?.sendNotification("pilcrow/debug/event", { session, ...report }).catch(() => undefined);
}

function report(session: vscode.DebugSession, event: { message?: Message }): void {
  const followed = sessions.get(session.id);
  if (!followed) {
    return;
  }
  if (event.message?.event !== "output") {
    followed.reports?.push(event);
    if (followed.reports && followed.reports.length > MAX_REPLAYED) {
      followed.reports = undefined;
    }
  }
  send(session.id, event);
}

export function follow(): vscode.Disposable {
  return vscode.debug.registerDebugAdapterTrackerFactory("*", {
    createDebugAdapterTracker(session) {
      if (session.type === "pilcrow") {
        return undefined;
      }
      sessions.set(session.id, { session, reports: [] });
      agentRequests.delete(session.id);
      const uri = session.workspaceFolder?.uri.toString();
      const agentSeqs = new Set<unknown>();
      report(session, { started: { name: session.name, type: session.type, uri, parent: session.parentSession?.id } } as object);
      const ended = (): void => {
        if (sessions.delete(session.id)) {
          agentRequests.delete(session.id);
          send(session.id, { ended: true });
        }
      };
      return {
        onWillReceiveMessage(message: Message & { seq: number }) {
          const waiting = agentRequests.get(session.id) ?? [];
          const at = waiting.indexOf(key(message.command, message.arguments));
          if (at >= 0) {
            waiting.splice(at, 1);
            agentSeqs.add(message.seq);
          } else if (message.type === "request" && REPORTED_COMMANDS.test(message.command ?? "")) {
            report(session, { message });
          }
        },
        onDidSendMessage(message: Message & { request_seq: number }) {
          const isReported = message.type === "response" && REPORTED_COMMANDS.test(message.command ?? "");
          if (message.type === "event" || (isReported && !agentSeqs.delete(message.request_seq))) {
            report(session, { message });
          }
        },
        onExit: ended,
        onWillStopSession: ended,
      };
    },
  });
}

// Registers the handler of the agent's requests with a new connection.
export function answer(client: LanguageClient): void {
  client.onRequest("pilcrow/debug/request", async (request: AgentRequest) => {
    const session = sessions.get(request.session)?.session;
    if (!session) {
      throw new Error("this debug session has ended");
    }
    if (request.command === "terminate" || request.command === "disconnect") {
      await vscode.debug.stopDebugging(session);
      return null;
    }
    const waiting = agentRequests.get(session.id) ?? [];
    agentRequests.set(session.id, waiting);
    const pending = key(request.command, request.arguments);
    waiting.push(pending);
    try {
      return (await session.customRequest(request.command, request.arguments)) ?? null;
    } catch (error) {
      // The request may never have been sent.
      const at = waiting.indexOf(pending);
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
