// Debug sessions of the agent's: VS Code joins them by a debug type of their own. It is also the type of what
// Pilcrow gives for their child sessions, and for a program that was launched again.

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

interface Listed {
  session: string;
  title: string;
  state?: string;
  pipe?: string;
}

/** Where a session is joined: its name, or the socket behind it. */
interface Place {
  session?: string;
  pipe?: string;
}

const TYPE = "pilcrow";

export function joining(client: () => LanguageClient | undefined): vscode.Disposable {
  return vscode.Disposable.from(
    vscode.debug.registerDebugConfigurationProvider(TYPE, {
      resolveDebugConfiguration: (_folder, configuration) => resolve(client(), configuration),
    }),
    vscode.debug.registerDebugAdapterDescriptorFactory(TYPE, {
      createDebugAdapterDescriptor: (session) => connect(client(), session.configuration),
    }),
  );
}

/** Joins the session that the person chooses. */
export async function join(): Promise<void> {
  await vscode.debug.startDebugging(undefined, { type: TYPE, request: "attach", name: "" });
}

async function listed(client: LanguageClient): Promise<(Listed & { pipe: string })[]> {
  const answer = await client.sendRequest<{ sessions: Listed[] }>("pilcrow/debug/sessions");
  return (answer?.sessions ?? []).filter(
    (it): it is Listed & { pipe: string } => it.pipe !== undefined && it.state !== "terminated",
  );
}

// Undefined where there is nothing to be joined: VS Code starts nothing then.
async function resolve(
  client: LanguageClient | undefined,
  configuration: vscode.DebugConfiguration,
): Promise<vscode.DebugConfiguration | undefined> {
  if (configuration.session || configuration.pipe) {
    return configuration;
  }
  if (!client) {
    void vscode.window.showInformationMessage("Pilcrow: its server does not run");
    return undefined;
  }
  const sessions = await listed(client);
  if (sessions.length === 0) {
    void vscode.window.showInformationMessage("Pilcrow: the agent debugs nothing");
    return undefined;
  }
  const items = sessions.map((session) => ({
    label: session.title,
    description: `${session.session}, ${session.state ?? "unknown"}`,
    session,
  }));
  const chosen = items.length === 1 ? items[0] : await vscode.window.showQuickPick(items, { title: "Pilcrow: join" });
  return (
    chosen && {
      ...configuration,
      type: TYPE,
      request: "attach",
      name: configuration.name || chosen.label,
      session: chosen.session.session,
      pipe: chosen.session.pipe,
    }
  );
}

async function connect(
  client: LanguageClient | undefined,
  configuration: vscode.DebugConfiguration,
): Promise<vscode.DebugAdapterDescriptor> {
  // After a restart VS Code keeps the configuration and adds what `terminated` said.
  const place: Place = { ...configuration, ...(configuration.__restart as Place | undefined) };
  const pipe = place.pipe ?? (await pipeOf(client, place.session));
  if (!pipe) {
    throw new Error("Pilcrow: this debug session cannot be joined from another process");
  }
  return new vscode.DebugAdapterNamedPipeServer(pipe);
}

// The server knows which session a name means, and says why none does. The channel that it opens is not needed.
async function pipeOf(client: LanguageClient | undefined, session: string | undefined): Promise<string | undefined> {
  const opened = await client?.sendRequest<{ pipe?: string; channel: unknown }>("pilcrow/debug/open", { session });
  await client?.sendRequest("pilcrow/debug/close", { channel: opened?.channel });
  return opened?.pipe;
}
