// Starts `pilcrow lsp` for all documents and offers its commands in the palette. All decisions are made in
// the program; this file handles only its path, input boxes, workspace trust, and what the views need from it.

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import * as vscode from "vscode";
import {
  LanguageClient,
  type LanguageClientOptions,
  type Range,
  type ServerOptions,
  State,
  type StaticFeature,
} from "vscode-languageclient/node";
import { answer, follow, reportTo } from "./debug";
import { join as joinSession, joining } from "./join";
import { Review } from "./review";
import { SessionView } from "./sessionView";
import { StatusItem } from "./statusItem";
import type { Envelope } from "./view/protocol";

/** Sends a request to the server; fails if none runs. */
export type Request = <T>(method: string, params: object) => Promise<T>;

/** Maximum wait for the server's first answer. */
const START_MS = 30_000;

/** What this extension shows itself; see `docs/protocols/language-server.md`. */
const CAPABILITIES: StaticFeature = {
  fillClientCapabilities: (capabilities) => {
    capabilities.experimental = { pilcrow: { reviews: true, questions: true } };
  },
  initialize: () => undefined,
  getState: () => ({ kind: "static" }),
  clear: () => undefined,
};

let client: LanguageClient | undefined;
let review: Review | undefined;
let sessionView: SessionView | undefined;
let statusItem: StatusItem | undefined;
/** Starts and stops, one after another: two servers at once would register the same commands. */
let lifecycle: Promise<void> = Promise.resolve();
/** The restart that has not begun; later requests join it. */
let planned: Promise<void> | undefined;

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
    ["pilcrow.palette.join", async () => ((await running()) ? joinSession() : undefined)],
  ];
  review = new Review(request);
  sessionView = new SessionView(context, request);
  statusItem = new StatusItem();
  context.subscriptions.push(
    output,
    review,
    review.onDidChange((files) => sessionView?.review(files)),
    sessionView,
    statusItem,
    follow(),
    joining(() => client),
    ...commands.map(([id, run]) => vscode.commands.registerCommand(id, run)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => restart(output)),
    vscode.workspace.onDidChangeConfiguration((event) =>
      event.affectsConfiguration("pilcrow.path") ? restart(output) : undefined,
    ),
  );
  await restart(output);
}

export function deactivate(): Promise<void> {
  lifecycle = lifecycle.then(stop);
  return lifecycle;
}

/** The path of the settings, else the program in this extension, else the one on `PATH`. */
function serverPath(): string {
  const own = join(__dirname, "../bin/pilcrow");
  return vscode.workspace.getConfiguration("pilcrow").get("path", "") || (existsSync(own) ? own : "pilcrow");
}

/** Whether the program exists; a client without one shows errors of its own. */
function isInstalled(path: string): boolean {
  const directories = path.includes("/") ? [""] : (process.env.PATH ?? "").split(delimiter);
  return directories.some((directory) => existsSync(join(directory, path)));
}

async function start(output: vscode.LogOutputChannel): Promise<void> {
  if (!isInstalled(serverPath())) {
    void missing();
    return;
  }
  const server: ServerOptions = { command: serverPath(), args: ["lsp"] };
  const options: LanguageClientOptions = {
    documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
    outputChannel: output,
    initializationOptions: { pilcrow: { trusted: vscode.workspace.isTrusted } },
    middleware: {
      // A run reports progress with each call and at its end.
      handleWorkDoneProgress: (token, params, next) => {
        review?.refresh();
        next(token, params);
      },
    },
  };
  const starting = new LanguageClient("pilcrow", "Pilcrow", server, options);
  starting.registerFeature(CAPABILITIES);
  starting.onNotification("pilcrow/event", (envelope: Envelope) => {
    sessionView?.event(envelope);
    statusItem?.event(envelope);
    if (envelope.event.type === "commit") {
      review?.refresh();
    }
  });
  starting.onDidChangeState(({ newState }) => {
    sessionView?.connected(newState === State.Running);
    statusItem?.connected(newState === State.Running);
    if (newState === State.Running) {
      review?.refresh();
    }
  });
  answer(starting);
  try {
    await deadline(starting.start(), START_MS);
    // The client may report a failed start as done.
    if (starting.state !== State.Running) {
      throw new Error("the server did not start");
    }
    client = starting;
    reportTo(client);
  } catch (error) {
    output.error(String(error));
    void missing();
  }
}

function deadline<T>(work: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1000} s`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

async function stop(): Promise<void> {
  const stopping = client;
  client = undefined;
  reportTo(undefined);
  // The server stops within 5 s; otherwise the client kills it, and the next one starts anyway.
  await stopping?.stop(6000).catch((error: unknown) => console.error(error));
}

function restart(output: vscode.LogOutputChannel): Promise<void> {
  planned ??= lifecycle = lifecycle.then(async () => {
    // Lets the running client send its settings first; it shows an error if it is stopped meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 0));
    planned = undefined;
    await stop();
    await start(output);
  });
  return planned;
}

/** The client after pending restarts; explains how to start the server if none runs. */
async function running(): Promise<LanguageClient | undefined> {
  await lifecycle;
  if (client && [State.Starting, State.Running].includes(client.state)) {
    return client;
  }
  void missing();
  return undefined;
}

async function request<T>(method: string, params: object): Promise<T> {
  if (client?.state !== State.Running) {
    throw new Error("the server does not run");
  }
  return client.sendRequest<T>(method, params);
}

async function missing(): Promise<void> {
  const settings = "Open Settings";
  const chosen = await vscode.window.showErrorMessage(
    `Pilcrow: cannot start "${serverPath()}". Install it (cargo install --locked --path crates/pilcrow), or set pilcrow.path.`,
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

async function prompt(resume?: Session): Promise<void> {
  if (!(await running())) {
    return;
  }
  const place = currentPlace();
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
  if (!(await running())) {
    return;
  }
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
  const listed = (await execute("pilcrow.sessions", activeFile())) as { sessions: Session[] } | undefined;
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
    await prompt(chosen.session);
  }
}

async function rename(): Promise<void> {
  const server = await running();
  const editor = vscode.window.activeTextEditor;
  if (!server) {
    return;
  }
  if (!editor) {
    void vscode.window.showInformationMessage("Pilcrow: open a file and put the cursor on a name");
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
  if (!newName || newName === old) {
    return;
  }
  const convert = server.code2ProtocolConverter;
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
  const server = await running();
  return server?.sendRequest("workspace/executeCommand", { command, arguments: [argument] });
}
