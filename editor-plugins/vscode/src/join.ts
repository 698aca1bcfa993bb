// The agent's debug sessions: VS Code joins them through a debug type of their own. Pilcrow also uses this type
// for their child sessions, and for a relaunched program.

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

interface ListedSession {
  session: string;
  title: string;
  state?: string;
  pipe?: string;
}

/** The target to join: a session's name, or its socket. */
interface Target {
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

/** Joins the session that the user selects. */
export async function join(): Promise<void> {
  await vscode.debug.startDebugging(undefined, { type: TYPE, request: "attach", name: "" });
}

async function listed(client: LanguageClient): Promise<(ListedSession & { pipe: string })[]> {
  const answer = await client.sendRequest<{ sessions: ListedSession[] }>("pilcrow/debug/sessions");
  return (answer?.sessions ?? []).filter(
    (session): session is ListedSession & { pipe: string } =>
      session.pipe !== undefined && session.state !== "terminated",
  );
}

// Undefined if there is no session to join: then VS Code starts nothing.
async function resolve(
  client: LanguageClient | undefined,
  configuration: vscode.DebugConfiguration,
): Promise<vscode.DebugConfiguration | undefined> {
  if (configuration.session || configuration.pipe) {
    return configuration;
  }
  if (!client) {
    void vscode.window.showInformationMessage("Pilcrow: the server is not running");
    return undefined;
  }
  const sessions = await listed(client);
  if (sessions.length === 0) {
    void vscode.window.showInformationMessage("Pilcrow: the agent has no debug session");
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
  // After a restart VS Code keeps the configuration and adds the data of `terminated`.
  const target: Target = { ...configuration, ...(configuration.__restart as Target | undefined) };
  const pipe = target.pipe ?? (await pipeOf(client, target.session));
  if (!pipe) {
    throw new Error("Pilcrow: this debug session cannot be joined; start it again");
  }
  return new vscode.DebugAdapterNamedPipeServer(pipe);
}

// The server resolves a name to a session, or reports why it cannot. The channel that it opens is not needed.
async function pipeOf(client: LanguageClient | undefined, session: string | undefined): Promise<string | undefined> {
  const opened = await client?.sendRequest<{ pipe?: string; channel: unknown }>("pilcrow/debug/open", { session });
  await client?.sendRequest("pilcrow/debug/close", { channel: opened?.channel });
  return opened?.pipe;
}
