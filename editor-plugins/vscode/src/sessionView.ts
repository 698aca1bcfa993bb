// The session view in the side bar: passes the view's requests to the server and the server's events to the
// view, and reports questions while the view is hidden. The view itself is in `view/`.

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { Request } from "./extension";
import type { Envelope, FromView, ToView } from "./view/protocol";

const VIEW = "pilcrow.session";
/** Key of the shown session in the workspace's state. */
const SHOWN = "pilcrow.session";

interface Shown {
  session: string;
  cwd: string;
}

interface Listed {
  session: string;
  title: string;
  last_active: string;
  parent?: string;
  running: boolean;
}

export class SessionView implements vscode.WebviewViewProvider, vscode.Disposable {
  private readonly context: vscode.ExtensionContext;
  private readonly request: Request;
  private view: vscode.WebviewView | undefined;
  /** Messages to the view until it is ready. */
  private pending: ToView[] | undefined = [];
  private isConnected = false;
  /** Ids of the open questions of all sessions. */
  private readonly questions = new Set<string>();
  private reviewed: Record<string, number> = {};
  private readonly subscriptions: vscode.Disposable[] = [];

  constructor(context: vscode.ExtensionContext, request: Request) {
    this.context = context;
    this.request = request;
    this.subscriptions.push(
      vscode.window.registerWebviewViewProvider(VIEW, this),
      vscode.commands.registerCommand("pilcrow.session.new", () => this.open(undefined)),
      vscode.commands.registerCommand("pilcrow.session.history", () => this.pick()),
      vscode.commands.registerCommand("pilcrow.session.attach", () => this.attach()),
    );
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    this.pending = [];
    const root = vscode.Uri.joinPath(this.context.extensionUri, "dist");
    view.webview.options = { enableScripts: true, localResourceRoots: [root] };
    view.webview.onDidReceiveMessage((message: FromView) => this.receive(message));
    view.onDidChangeVisibility(() => {
      // VS Code drops the page of a hidden view, and would keep messages to it.
      this.pending = view.visible ? this.pending : [];
    });
    view.onDidDispose(() => {
      this.view = undefined;
      this.pending = [];
    });
    view.webview.html = page(view.webview, root);
    this.showBadge();
  }

  /** Notes that a server runs, or that none does. */
  connected(isConnected: boolean): void {
    this.isConnected = isConnected;
    if (!isConnected) {
      this.questions.clear();
      this.showBadge();
    }
    this.post(this.connection());
  }

  event(envelope: Envelope): void {
    this.post({ type: "event", envelope });
    const { event, session_id } = envelope;
    const id = event.request_id as string;
    if (event.type === "permission_request" || event.type === "input_request") {
      this.questions.add(id);
      void this.notify(session_id, event.title ?? event.question);
    } else if (event.type === "permission_resolved" || event.type === "input_resolved") {
      this.questions.delete(id);
    } else {
      return;
    }
    this.showBadge();
  }

  /** Shows the number of files to review of each session. */
  review(files: Record<string, number>): void {
    this.reviewed = files;
    this.post({ type: "reviewed", files });
  }

  private post(message: ToView): void {
    if (this.pending) {
      // The view asks for all but these when it is ready.
      if (message.type === "open" || message.type === "attach") {
        this.pending.push(message);
      }
    } else {
      void this.view?.webview.postMessage(message);
    }
  }

  private async receive(message: FromView): Promise<void> {
    switch (message.type) {
      case "ready": {
        const pending = this.pending ?? [];
        this.pending = undefined;
        // A session to open replaces the one that was shown.
        const opens = pending.some((it) => it.type === "open");
        if (!opens || !this.isConnected) {
          this.post(this.connection());
        }
        this.post({ type: "reviewed", files: this.reviewed });
        pending.forEach((it) => this.post(it));
        break;
      }
      case "request": {
        const { id, method } = message;
        const params = method === "pilcrow/context/complete" ? { ...message.params, focus: activeLink() } : message.params;
        try {
          this.post({ type: "answer", id, result: await this.request(method, params) });
        } catch (error) {
          const { message, data } = error as Error & { data?: { code?: string } };
          this.post({ type: "answer", id, error: message, code: data?.code });
        }
        break;
      }
      case "session": {
        const { session, cwd, title } = message;
        await this.context.workspaceState.update(SHOWN, { session, cwd } satisfies Shown);
        if (this.view) {
          this.view.title = title || "Session";
        }
        break;
      }
      case "review":
        await vscode.commands.executeCommand(`pilcrow.review.${message.action}`, message.session);
        break;
      case "openFile":
        await this.openFile(message.path);
    }
  }

  private connection(): ToView {
    if (!this.isConnected) {
      return { type: "disconnected" };
    }
    const shown = this.context.workspaceState.get<Shown>(SHOWN);
    return { type: "connected", session: shown?.session, cwd: shown?.cwd ?? folder() };
  }

  private async open(session: string | undefined, cwd = folder()): Promise<void> {
    await vscode.commands.executeCommand(`${VIEW}.focus`);
    this.post({ type: "open", session, cwd });
  }

  private async pick(): Promise<void> {
    const cwd = folder();
    const list = async (): Promise<(vscode.QuickPickItem & { listed: Listed })[]> => {
      const { sessions } = await this.request<{ sessions: Listed[] }>("pilcrow/session/list", { cwd });
      return sessions.map((listed) => ({
        label: `${listed.running ? "$(sync) " : ""}${listed.title}`,
        description: `${listed.parent ? "fork, " : ""}${new Date(listed.last_active).toLocaleString()}`,
        buttons: [
          { iconPath: new vscode.ThemeIcon("edit"), tooltip: "Rename" },
          { iconPath: new vscode.ThemeIcon("trash"), tooltip: "Delete" },
        ],
        listed,
      }));
    };
    const picker = vscode.window.createQuickPick<vscode.QuickPickItem & { listed: Listed }>();
    const change = async (listed: Listed, action: string | undefined): Promise<void> => {
      const { session } = listed;
      try {
        if (action === "Rename") {
          const title = await vscode.window.showInputBox({ title: "Pilcrow: rename the session", value: listed.title });
          if (title) {
            await this.request("pilcrow/session/rename", { session, cwd, title });
          }
        } else {
          const said = await vscode.window.showWarningMessage(`Delete the session “${listed.title}”?`, { modal: true }, "Delete");
          if (said === "Delete") {
            await this.request("pilcrow/session/delete", { session, cwd });
          }
        }
      } catch (error) {
        void vscode.window.showErrorMessage(`Pilcrow: ${(error as Error).message}`);
      }
    };
    picker.title = "Pilcrow: sessions";
    picker.placeholder = "Open a session";
    picker.busy = true;
    picker.onDidAccept(() => {
      const [chosen] = picker.selectedItems;
      picker.hide();
      if (chosen) {
        void this.open(chosen.listed.session, cwd);
      }
    });
    picker.onDidTriggerItemButton(async ({ item, button }) => {
      picker.hide();
      await change(item.listed, button.tooltip);
      await this.pick();
    });
    picker.onDidHide(() => picker.dispose());
    picker.show();
    try {
      picker.items = await list();
      picker.busy = false;
      if (picker.items.length === 0) {
        picker.placeholder = "There is no session yet";
      }
    } catch (error) {
      picker.hide();
      void vscode.window.showErrorMessage(`Pilcrow: ${(error as Error).message}`);
    }
  }

  /** Links the selection of the active editor, else its file, in the prompt. */
  private async attach(): Promise<void> {
    const link = activeLink();
    if (!link) {
      void vscode.window.showInformationMessage("Pilcrow: open a file first");
      return;
    }
    await vscode.commands.executeCommand(`${VIEW}.focus`);
    this.post({ type: "attach", ...link });
  }

  private async openFile(path: string): Promise<void> {
    const shown = this.context.workspaceState.get<Shown>(SHOWN);
    const [, file, line] = /^(.*?)(?::(\d+)|#L(\d+))?(?:[:-].*)?$/.exec(path) ?? [];
    const base = vscode.Uri.file(shown?.cwd ?? folder() ?? "/");
    const uri = file.startsWith("/") ? vscode.Uri.file(file) : vscode.Uri.joinPath(base, file);
    const at = new vscode.Position(Math.max(0, Number(line ?? 1) - 1), 0);
    try {
      await vscode.window.showTextDocument(uri, { selection: new vscode.Range(at, at) });
    } catch {
      void vscode.window.showInformationMessage(`Pilcrow: there is no file ${file}`);
    }
  }

  /** Reports a question that the view does not show. */
  private async notify(session: string, title: string): Promise<void> {
    const shown = this.context.workspaceState.get<Shown>(SHOWN);
    if (this.view?.visible && shown?.session === session) {
      return;
    }
    const said = await vscode.window.showInformationMessage(`Pilcrow asks: ${title}`, "Show");
    if (said === "Show") {
      await this.open(session, shown?.cwd);
    }
  }

  private showBadge(): void {
    if (this.view) {
      const value = this.questions.size;
      this.view.badge = value > 0 ? { value, tooltip: value === 1 ? "1 question" : `${value} questions` } : undefined;
    }
  }
}

/** The folder of the active file, else the first one. */
function folder(): string | undefined {
  const uri = vscode.window.activeTextEditor?.document.uri;
  const active = uri && vscode.workspace.getWorkspaceFolder(uri);
  return (active ?? vscode.workspace.workspaceFolders?.[0])?.uri.fsPath;
}

/** A link to the active file, with the selected lines. */
function activeLink(): { name: string; uri: string } | undefined {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.uri.scheme !== "file") {
    return undefined;
  }
  const { document, selection } = editor;
  const name = vscode.workspace.asRelativePath(document.uri, false);
  const start = selection.start.line + 1;
  // A selection of whole lines ends at the beginning of the next one.
  const end = Math.max(start, selection.end.line + (selection.end.character > 0 ? 1 : 0));
  const lines = selection.isEmpty ? { shown: "", fragment: "" } : { shown: `:${start}-${end}`, fragment: `L${start}-L${end}` };
  return { name: name + lines.shown, uri: document.uri.with({ fragment: lines.fragment }).toString() };
}

function page(webview: vscode.Webview, root: vscode.Uri): string {
  const nonce = randomBytes(16).toString("base64");
  const file = (name: string): string => webview.asWebviewUri(vscode.Uri.joinPath(root, name)).toString();
  const policy = `default-src 'none'; img-src data:; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="UTF-8">
  <meta http-equiv="Content-Security-Policy" content="${policy}">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <link rel="stylesheet" href="${file("view.css")}">
  <title>Pilcrow</title>
</head>
<body>
  <script nonce="${nonce}" src="${file("view.js")}"></script>
</body>
</html>`;
}
