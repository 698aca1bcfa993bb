// Starts `pilcrow lsp` for all documents and offers its commands in the palette. All decisions are made in
// the program; this file handles only its path, input boxes, and workspace trust.

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type Range, type ServerOptions } from "vscode-languageclient/node";
import { answer, follow, reportTo } from "./debug";
import { join, joining } from "./join";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("Pilcrow", { log: true });
  const commands: [string, () => Promise<unknown>][] = [
    ["pilcrow.palette.prompt", () => prompt()],
    ["pilcrow.palette.refactor", rename],
    ["pilcrow.palette.steer", steer],
    ["pilcrow.palette.resume", resume],
    ["pilcrow.palette.stop", () => execute("pilcrow.stop", {})],
    ["pilcrow.palette.undo", () => execute("pilcrow.undo", activeFile())],
    ["pilcrow.palette.redo", () => execute("pilcrow.redo", activeFile())],
    ["pilcrow.palette.transcript", () => execute("pilcrow.transcript", {})],
    ["pilcrow.palette.join", join],
  ];
  context.subscriptions.push(
    output,
    follow(),
    joining(() => client),
    ...commands.map(([id, run]) => vscode.commands.registerCommand(id, run)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => restart(output)),
    vscode.workspace.onDidChangeConfiguration((event) =>
      event.affectsConfiguration("pilcrow.path") ? restart(output) : undefined,
    ),
  );
  await start(output);
}

export function deactivate(): Promise<void> {
  return stop();
}

async function start(output: vscode.LogOutputChannel): Promise<void> {
  const path = vscode.workspace.getConfiguration("pilcrow").get("path", "") || "pilcrow";
  const server: ServerOptions = { command: path, args: ["lsp"] };
  const options: LanguageClientOptions = {
    documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
    outputChannel: output,
    initializationOptions: { pilcrow: { trusted: vscode.workspace.isTrusted } },
  };
  client = new LanguageClient("pilcrow", "Pilcrow", server, options);
  answer(client);
  try {
    await client.start();
    reportTo(client);
  } catch (error) {
    client = undefined;
    output.error(String(error));
    void missing(path);
  }
}

async function stop(): Promise<void> {
  const stopping = client;
  client = undefined;
  reportTo(undefined);
  // The server stops within 5 s; otherwise the client kills it, and the next one starts anyway.
  await stopping?.stop(6000).catch((error: unknown) => console.error(error));
}

async function restart(output: vscode.LogOutputChannel): Promise<void> {
  await stop();
  await start(output);
}

async function missing(path: string): Promise<void> {
  const settings = "Open Settings";
  const chosen = await vscode.window.showErrorMessage(
    `Pilcrow: cannot start "${path}". Install it (cargo install --locked --path crates/pilcrow), or set pilcrow.path.`,
    settings,
  );
  if (chosen === settings) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "pilcrow.path");
  }
}

/** The subject of a request: the active document and its selection. */
function currentPlace(): { uri: string; range: Range } | undefined {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !client || !["file", "untitled"].includes(editor.document.uri.scheme)) {
    return undefined;
  }
  const convert = client.code2ProtocolConverter;
  return { uri: convert.asUri(editor.document.uri), range: convert.asRange(editor.selection) };
}

async function prompt(place = currentPlace(), resume?: Session): Promise<void> {
  const text = await vscode.window.showInputBox({
    title: resume ? `Pilcrow: ${resume.title}` : "Pilcrow",
    prompt: "What should Pilcrow do?",
    placeHolder: "rename fetch_rows to load_rows",
    ignoreFocusOut: true,
  });
  if (text) {
    await execute("pilcrow.prompt", { text, ...place, resume: resume?.session });
  }
}

/** An earlier session, as the server lists it. */
interface Session {
  session: string;
  title: string;
  messages: number;
  lastActive: string;
}

async function steer(): Promise<void> {
  const text = await vscode.window.showInputBox({
    title: "Pilcrow: message the run",
    prompt: "The run receives it after its current turn",
    placeHolder: "leave the tests alone",
    ignoreFocusOut: true,
  });
  if (text) {
    await execute("pilcrow.steer", { text });
  }
}

async function resume(): Promise<void> {
  // The same document for both requests selects the same project.
  const place = currentPlace();
  const listed = (await execute("pilcrow.sessions", place ? { uri: place.uri } : {})) as
    | { sessions: Session[] }
    | undefined;
  if (listed?.sessions.length === 0) {
    void vscode.window.showInformationMessage("Pilcrow: there is no session yet");
    return;
  }
  const items = listed?.sessions.map((session) => ({
    label: session.title,
    description: new Date(session.lastActive).toLocaleString(),
    session,
  }));
  const chosen = items && (await vscode.window.showQuickPick(items, { title: "Pilcrow: resume" }));
  if (chosen) {
    await prompt(place, chosen.session);
  }
}

async function rename(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !client) {
    return;
  }
  const { document, selection } = editor;
  const word = document.getWordRangeAtPosition(selection.active);
  const old = word && document.getText(word);
  const newName = await vscode.window.showInputBox({
    title: "Pilcrow: rename",
    prompt: old ? `New name for ${old}` : "New name for the symbol at the cursor",
    value: old,
    ignoreFocusOut: true,
  });
  if (!newName || newName === old || !client) {
    return;
  }
  const convert = client.code2ProtocolConverter;
  await execute("pilcrow.refactor", {
    kind: "rename",
    uri: convert.asUri(document.uri),
    position: convert.asPosition(selection.active),
    new_name: newName,
  });
}

// The active file selects the project if several are open.
function activeFile(): object {
  const document = vscode.window.activeTextEditor?.document;
  return document?.uri.scheme === "file" && client ? { uri: client.code2ProtocolConverter.asUri(document.uri) } : {};
}

async function execute(command: string, argument: object): Promise<unknown> {
  if (!client) {
    await missing(vscode.workspace.getConfiguration("pilcrow").get("path", "") || "pilcrow");
    return undefined;
  }
  return client.sendRequest("workspace/executeCommand", { command, arguments: [argument] });
}
