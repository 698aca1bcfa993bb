// Review of the agent's changes as a source control: a group of files per session, the texts before as the
// originals of VS Code's own gutter marks and diffs. The server computes the changes and carries out decisions.

import * as vscode from "vscode";
import type { Request } from "./extension";

/** Scheme of the texts before; `package.json` names it too. */
const SCHEME = "pilcrow-before";
/** Number of earlier sessions of a folder to review. */
const EARLIER = 3;
/** Time in which changes are collected before the review is listed again. */
const DELAY_MS = 200;

type Lines = [start: number, end: number];

interface Hunk {
  id: string;
  kind: "lines" | "created" | "deleted" | "moved" | "content";
  before?: Lines;
  now?: Lines;
  edited: boolean;
  /** The lines that a proposed change inserts; no file has them yet. */
  proposed?: string;
}

interface ReviewedFile {
  path: string;
  moved_from?: string;
  hunks: Hunk[];
}

interface ReviewedSession {
  session: string;
  title: string;
  cwd: string;
  files: ReviewedFile[];
}

type Group = vscode.SourceControlResourceGroup & { reviewed?: ReviewedSession };
type Resource = vscode.SourceControlResourceState & { reviewed: ReviewedSession; file: ReviewedFile };
type Selection = { hunks?: string[]; path?: string };
type Decision = "keep" | "reject";

/** A change as `scm/change/title` passes it: lines from 1; an end of 0 means no lines after the start. */
interface LineChange {
  originalStartLineNumber: number;
  originalEndLineNumber: number;
  modifiedStartLineNumber: number;
  modifiedEndLineNumber: number;
}

export class Review implements vscode.Disposable {
  private readonly request: Request;
  private sessions: ReviewedSession[] = [];
  private control: vscode.SourceControl | undefined;
  private readonly groups = new Map<string, Group>();
  private readonly textsChanged = new vscode.EventEmitter<vscode.Uri>();
  private readonly changed = new vscode.EventEmitter<Record<string, number>>();
  /** The number of files to review of each session. */
  readonly onDidChange = this.changed.event;
  private readonly proposals = vscode.window.createTextEditorDecorationType({
    after: { color: new vscode.ThemeColor("editorCodeLens.foreground"), margin: "0 0 0 2em" },
    overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.modifiedForeground"),
  });
  private readonly subscriptions: vscode.Disposable[] = [this.textsChanged, this.changed, this.proposals];
  private timer: NodeJS.Timeout | undefined;
  private listing: Promise<void> = Promise.resolve();

  constructor(request: Request) {
    this.request = request;
    const commands: [string, (...args: never[]) => unknown][] = [
      ["keepChange", (...at: ChangeArguments) => this.decideChange("keep", at)],
      ["rejectChange", (...at: ChangeArguments) => this.decideChange("reject", at)],
      ["keepFile", (...files: Resource[]) => this.decideFiles("keep", files)],
      ["rejectFile", (...files: Resource[]) => this.decideFiles("reject", files)],
      ["rejectFileWithReason", (...files: Resource[]) => this.rejectWithReason(files)],
      ["keepAll", (of?: Group | string) => this.decideAll("keep", of)],
      ["rejectAll", (of?: Group | string) => this.decideAll("reject", of)],
      ["openFile", (file: Resource) => this.openFile(file)],
      ["openAll", (of?: Group | string) => this.openAll(of)],
      ["next", () => this.go(1)],
      ["previous", () => this.go(-1)],
    ];
    this.subscriptions.push(
      ...commands.map(([name, run]) =>
        vscode.commands.registerCommand(`pilcrow.review.${name}`, run as (...args: unknown[]) => unknown),
      ),
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
        onDidChange: this.textsChanged.event,
        provideTextDocumentContent: (uri) => this.textBefore(uri),
      }),
      vscode.window.onDidChangeVisibleTextEditors(() => this.markProposals()),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (document.uri.scheme === "file" && this.find(document.uri.fsPath)) {
          this.refresh();
        }
      }),
    );
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.control?.dispose();
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  /** Lists the changes again, soon. */
  refresh(): void {
    this.timer ??= setTimeout(() => void this.list(), DELAY_MS);
  }

  private list(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.listing = this.listing.then(async () => {
      try {
        await this.load();
      } catch {
        // Without a server there is nothing to review.
        this.sessions = [];
      }
      this.show();
    });
    return this.listing;
  }

  private async load(): Promise<void> {
    const sessions = new Map<string, ReviewedSession>();
    for (const folder of vscode.workspace.workspaceFolders ?? []) {
      const cwd = folder.uri.fsPath;
      const listed = await this.request<{ sessions: { session: string; title: string }[] }>("pilcrow/session/list", { cwd });
      for (const { session, title } of listed.sessions.slice(0, EARLIER)) {
        sessions.set(session, { session, title, cwd, files: [] });
      }
    }
    // A session stays until all of its changes are decided, also when newer ones exist.
    const earlier = this.sessions.filter((it) => !sessions.has(it.session));
    const reviews = [...sessions.values(), ...earlier].map(async (it) => {
      const { session, cwd } = it;
      const review = await this.request<{ files: ReviewedFile[] }>("pilcrow/review/list", { session, cwd }).catch(() => undefined);
      return { ...it, files: review?.files ?? [] };
    });
    this.sessions = (await Promise.all(reviews)).filter((it) => it.files.length > 0);
  }

  private show(): void {
    const paths = new Set(this.sessions.flatMap((it) => it.files.map((file) => file.path)));
    void vscode.commands.executeCommand("setContext", "pilcrow.reviewedFiles", [...paths]);
    if (paths.size === 0) {
      this.control?.dispose();
      this.control = undefined;
      this.groups.clear();
    } else {
      this.control ??= this.createControl();
      this.control.count = paths.size;
      this.showGroups(this.control);
    }
    this.markProposals();
    this.changed.fire(Object.fromEntries(this.sessions.map((it) => [it.session, it.files.length])));
    for (const { uri } of vscode.workspace.textDocuments) {
      if (uri.scheme === SCHEME) {
        this.textsChanged.fire(uri);
      }
    }
  }

  /** Marks the lines for which the agent proposes others. */
  private markProposals(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const { uri } = editor.document;
      const hunks = uri.scheme === "file" ? (this.find(uri.fsPath)?.file.hunks ?? []) : [];
      const marks = hunks.filter((hunk) => hunk.proposed !== undefined && hunk.now).map((hunk) => proposalMark(hunk));
      editor.setDecorations(this.proposals, marks);
    }
  }

  private createControl(): vscode.SourceControl {
    const control = vscode.scm.createSourceControl("pilcrow", "Pilcrow");
    control.inputBox.visible = false;
    control.quickDiffProvider = {
      provideOriginalResource: (uri) => {
        const found = uri.scheme === "file" ? this.find(uri.fsPath) : undefined;
        return found && !isProposed(found.file) ? uriBefore(found.reviewed, found.file) : undefined;
      },
    };
    return control;
  }

  private showGroups(control: vscode.SourceControl): void {
    for (const [session, group] of this.groups) {
      if (!this.sessions.some((it) => it.session === session)) {
        group.dispose();
        this.groups.delete(session);
      }
    }
    for (const reviewed of this.sessions) {
      const known = this.groups.get(reviewed.session);
      const group: Group = known ?? control.createResourceGroup(reviewed.session, reviewed.title);
      this.groups.set(reviewed.session, group);
      group.label = reviewed.title;
      group.reviewed = reviewed;
      group.resourceStates = reviewed.files.map((file) => resource(reviewed, file));
    }
  }

  /** The newest session that changed a file. */
  private find(path: string): { reviewed: ReviewedSession; file: ReviewedFile } | undefined {
    for (const reviewed of this.sessions) {
      const file = reviewed.files.find((it) => it.path === path);
      if (file) {
        return { reviewed, file };
      }
    }
    return undefined;
  }

  private async textBefore(uri: vscode.Uri): Promise<string> {
    const { side, ...scope } = JSON.parse(uri.query) as { side?: "proposed" };
    const before = await this.request<{ text?: string; proposed?: string }>("pilcrow/review/before", { ...scope, path: uri.path });
    return (side === "proposed" ? before.proposed : before.text) ?? "";
  }

  /** Decides about the change that a diff names, else about the one at the cursor. */
  private async decideChange(decision: Decision, [uri, changes, index]: ChangeArguments): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const path = uri?.fsPath ?? editor?.document.uri.fsPath;
    const change = changes?.[index ?? 0];
    const line = editor?.selection.active.line ?? 0;
    await this.list();
    const found = path === undefined ? undefined : this.find(path);
    const isHere = (hunk: Hunk): boolean => (change ? isChange(hunk, change) : isTouched(hunk.now, [line, line + 1]));
    const here = found?.file.hunks.filter(isHere) ?? [];
    // A change of lines is not the move of their file.
    const ofLines = here.filter((hunk) => hunk.kind === "lines");
    const hunks = ofLines.length > 0 ? ofLines : here;
    if (!found || hunks.length === 0) {
      void vscode.window.showInformationMessage("Pilcrow: there is no change of the agent here");
      return;
    }
    await this.decide(decision, found.reviewed, { hunks: hunks.map((it) => it.id) });
  }

  private async decideFiles(decision: Decision, files: Resource[], reason?: string): Promise<void> {
    for (const { reviewed, file } of files) {
      await this.decide(decision, reviewed, { path: file.path }, reason);
    }
  }

  private async rejectWithReason(files: Resource[]): Promise<void> {
    const reason = await vscode.window.showInputBox({
      title: "Pilcrow: reject",
      prompt: "The reason, for the model",
      ignoreFocusOut: true,
    });
    if (reason !== undefined) {
      await this.decideFiles("reject", files, reason);
    }
  }

  private async decideAll(decision: Decision, of?: Group | string): Promise<void> {
    for (const reviewed of this.selected(of)) {
      await this.decide(decision, reviewed, {});
    }
  }

  private async decide(decision: Decision, reviewed: ReviewedSession, selection: Selection, reason?: string): Promise<void> {
    const { session, cwd } = reviewed;
    try {
      const params = { session, cwd, ...selection, reason };
      const answer = await this.request<{ conflicts?: { path: string; reason: string }[] }>(`pilcrow/review/${decision}`, params);
      const stay = answer.conflicts?.map((it) => `${vscode.workspace.asRelativePath(it.path)}: ${it.reason}`);
      if (stay?.length) {
        void vscode.window.showWarningMessage(`Pilcrow: some changes stay: ${stay.join("; ")}`);
      }
    } catch (error) {
      void vscode.window.showErrorMessage(`Pilcrow: ${(error as Error).message}`);
    }
    await this.list();
  }

  /** The session of a group or with an id; without either, all. */
  private selected(of: Group | string | undefined): ReviewedSession[] {
    const id = typeof of === "string" ? of : of?.reviewed?.session;
    return this.sessions.filter((it) => id === undefined || it.session === id);
  }

  private async openFile({ reviewed, file }: Resource): Promise<void> {
    const name = vscode.workspace.asRelativePath(file.path);
    const before = uriBefore(reviewed, file);
    if (isProposed(file)) {
      const [left, right] = [uriNow(reviewed, file), uriProposed(reviewed, file)];
      await vscode.commands.executeCommand("vscode.diff", left, right, `${name} (proposed by the agent)`);
    } else if (isWhole(file, "deleted")) {
      await vscode.commands.executeCommand("vscode.open", before, {}, `${name} (deleted)`);
    } else {
      await vscode.commands.executeCommand("vscode.diff", before, vscode.Uri.file(file.path), `${name} (changes of the agent)`);
    }
  }

  private async openAll(of?: Group | string): Promise<void> {
    const reviewed = this.selected(of);
    const files = reviewed.flatMap((session) =>
      session.files.map((file) => {
        const now = vscode.Uri.file(file.path);
        if (isProposed(file)) {
          return [now, uriNow(session, file), uriProposed(session, file)];
        }
        const before = isWhole(file, "created") ? undefined : uriBefore(session, file);
        return [now, before, isWhole(file, "deleted") ? undefined : now];
      }),
    );
    if (files.length === 0) {
      void vscode.window.showInformationMessage("Pilcrow: there is nothing to review");
      return;
    }
    const title = reviewed.length === 1 ? `Changes: ${reviewed[0].title}` : "Changes of Pilcrow";
    await vscode.commands.executeCommand("vscode.changes", title, files);
  }

  /** Shows the next (1) or previous (-1) change after the cursor; after the last comes the first. */
  private async go(step: 1 | -1): Promise<void> {
    const files = new Map<string, Set<number>>();
    for (const file of this.sessions.flatMap((it) => it.files)) {
      const lines = files.get(file.path) ?? new Set();
      const hasFile = (hunk: Hunk): boolean => hunk.kind !== "deleted" && (hunk.proposed === undefined || !!hunk.now);
      file.hunks.filter(hasFile).forEach((hunk) => lines.add(hunk.now?.[0] ?? 0));
      files.set(file.path, lines);
    }
    const places = [...files].flatMap(([path, lines]) => [...lines].map((line) => ({ path, line }))).sort(byPlace);
    const editor = vscode.window.activeTextEditor;
    const here = { path: editor?.document.uri.fsPath ?? "", line: editor?.selection.active.line ?? 0 };
    const ordered = step === 1 ? places : places.reverse();
    const next = ordered.find((place) => byPlace(place, here) * step > 0) ?? ordered[0];
    if (!next) {
      void vscode.window.showInformationMessage("Pilcrow: there is nothing to review");
      return;
    }
    const at = new vscode.Position(next.line, 0);
    await vscode.window.showTextDocument(vscode.Uri.file(next.path), { selection: new vscode.Range(at, at) });
  }
}

type ChangeArguments = [uri?: vscode.Uri, changes?: LineChange[], index?: number];

function byPlace(a: { path: string; line: number }, b: { path: string; line: number }): number {
  return a.path === b.path ? a.line - b.line : a.path < b.path ? -1 : 1;
}

function resource(reviewed: ReviewedSession, file: ReviewedFile): Resource {
  const kinds = file.hunks.map((hunk) => hunk.kind);
  const [icon, what] = kinds.includes("deleted")
    ? ["diff-removed", "deleted"]
    : kinds.includes("created")
      ? ["diff-added", "created"]
      : kinds.includes("moved")
        ? ["diff-renamed", "moved"]
        : ["diff-modified", kinds.length === 1 ? "1 change" : `${kinds.length} changes`];
  const state = {
    resourceUri: vscode.Uri.file(file.path),
    decorations: {
      iconPath: new vscode.ThemeIcon(icon),
      strikeThrough: what === "deleted",
      tooltip: isProposed(file) ? `proposed: ${what}` : file.moved_from ? `moved from ${vscode.workspace.asRelativePath(file.moved_from)}` : what,
    },
    reviewed,
    file,
  };
  return { ...state, command: { title: "Open Changes", command: "pilcrow.review.openFile", arguments: [state] } };
}

function uriBefore({ session, cwd }: ReviewedSession, file: ReviewedFile): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, path: file.path, query: JSON.stringify({ session, cwd }) });
}

function uriProposed({ session, cwd }: ReviewedSession, file: ReviewedFile): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, path: file.path, query: JSON.stringify({ session, cwd, side: "proposed" }) });
}

/** The user's text; an empty one if the file does not exist. */
function uriNow(reviewed: ReviewedSession, file: ReviewedFile): vscode.Uri {
  return isWhole(file, "created") ? uriBefore(reviewed, file) : vscode.Uri.file(file.path);
}

function isProposed(file: ReviewedFile): boolean {
  return file.hunks.some((hunk) => hunk.proposed !== undefined);
}

function proposalMark({ now, proposed, edited }: Hunk): vscode.DecorationOptions {
  const [start, end] = now ?? [0, 0];
  const line = Math.max(start, end - 1);
  const text = edited ? "¶ proposed, conflicts with your text" : "¶ proposed";
  const hoverMessage = new vscode.MarkdownString().appendText("The agent proposes:").appendCodeblock(proposed ?? "");
  return { range: new vscode.Range(start, 0, line, Number.MAX_SAFE_INTEGER), hoverMessage, renderOptions: { after: { contentText: text } } };
}

function isWhole(file: ReviewedFile, kind: Hunk["kind"]): boolean {
  return file.hunks.some((hunk) => hunk.kind === kind);
}

/** Whether a hunk is, or is part of, a change of VS Code's own diff. */
function isChange(hunk: Hunk, change: LineChange): boolean {
  const before = lines(change.originalStartLineNumber, change.originalEndLineNumber);
  const now = lines(change.modifiedStartLineNumber, change.modifiedEndLineNumber);
  return isTouched(hunk.before, before) && isTouched(hunk.now, now);
}

function lines(start: number, end: number): Lines {
  return end === 0 ? [start, start] : [start - 1, end];
}

/** Whether two ranges share a line, or touch if one is empty; a change of the whole file has every line. */
function isTouched(of: Lines | undefined, other: Lines): boolean {
  if (!of) {
    return true;
  }
  const isEmpty = of[0] === of[1] || other[0] === other[1];
  return isEmpty ? of[0] <= other[1] && other[0] <= of[1] : of[0] < other[1] && other[0] < of[1];
}
