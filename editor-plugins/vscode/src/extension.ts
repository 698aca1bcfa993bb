// Starts `pilcrow lsp` for every document and offers its commands in the palette. What has to be
// decided is decided in the program; here are only a path, two questions for a text, and trust.

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type Range, type ServerOptions } from "vscode-languageclient/node";
import { answer, follow, tellTo } from "./debug";
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
    ["pilcrow.palette.undo", () => execute("pilcrow.undo", here())],
    ["pilcrow.palette.redo", () => execute("pilcrow.redo", here())],
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
    tellTo(client);
  } catch (error) {
    client = undefined;
    output.error(String(error));
    void missing(path);
  }
}

async function stop(): Promise<void> {
  const stopping = client;
  client = undefined;
  tellTo(undefined);
  // It ends within 5 s; one that does not is killed by the client, and the next one starts all the same.
  await stopping?.stop(6000).catch((error: unknown) => console.error(error));
}

async function restart(output: vscode.LogOutputChannel): Promise<void> {
  await stop();
  await start(output);
}

async function missing(path: string): Promise<void> {
  const settings = "Open Settings";
  const chosen = await vscode.window.showErrorMessage(
    `Pilcrow: "${path}" cannot be started. Install it (cargo install --locked --path crates/pilcrow), or set pilcrow.path.`,
    settings,
  );
  if (chosen === settings) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "pilcrow.path");
  }
}

/** What a request is about: the document that is shown, and what is selected in it. */
function about(): { uri: string; range: Range } | undefined {
  const editor = vscode.window.activeTextEditor;
  if (!editor || !client || !["file", "untitled"].includes(editor.document.uri.scheme)) {
    return undefined;
  }
  const convert = client.code2ProtocolConverter;
  return { uri: convert.asUri(editor.document.uri), range: convert.asRange(editor.selection) };
}

async function prompt(place = about(), resume?: Conversation): Promise<void> {
  const text = await vscode.window.showInputBox({
    title: resume ? `Pilcrow: ${resume.title}` : "Pilcrow",
    prompt: "What shall it do?",
    placeHolder: "rename fetch_rows to load_rows",
    ignoreFocusOut: true,
  });
  if (text) {
    await execute("pilcrow.prompt", { text, ...place, resume: resume?.session });
  }
}

/** A conversation of before, as the server lists it. */
interface Conversation {
  session: string;
  title: string;
  messages: number;
  lastActive: string;
}

async function steer(): Promise<void> {
  const text = await vscode.window.showInputBox({
    title: "Pilcrow: tell the run",
    prompt: "It hears it after its turn",
    placeHolder: "leave the tests alone",
    ignoreFocusOut: true,
  });
  if (text) {
    await execute("pilcrow.steer", { text });
  }
}

async function resume(): Promise<void> {
  // Both are about the same document, so that both mean the same project.
  const place = about();
  const listed = (await execute("pilcrow.sessions", place ? { uri: place.uri } : {})) as
    | { sessions: Conversation[] }
    | undefined;
  if (listed?.sessions.length === 0) {
    void vscode.window.showInformationMessage("Pilcrow: there is no conversation yet");
    return;
  }
  const items = listed?.sessions.map((conversation) => ({
    label: conversation.title,
    description: new Date(conversation.lastActive).toLocaleString(),
    conversation,
  }));
  const chosen = items && (await vscode.window.showQuickPick(items, { title: "Pilcrow: go on with" }));
  if (chosen) {
    await prompt(place, chosen.conversation);
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

// The file tells which project is meant, where several are open.
function here(): object {
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
