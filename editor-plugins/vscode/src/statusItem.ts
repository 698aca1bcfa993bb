// The status bar item: whether the server runs, works or asks. A click opens the session view.

import * as vscode from "vscode";
import type { Envelope } from "./view/protocol";

export class StatusItem implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("pilcrow", vscode.StatusBarAlignment.Right, 10);
  private isConnected = false;
  /** Sessions that work. */
  private readonly running = new Set<string>();
  /** Ids of open questions. */
  private readonly questions = new Set<string>();

  constructor() {
    this.item.name = "Pilcrow";
    this.item.command = "pilcrow.session.focus";
    this.show();
    this.item.show();
  }

  dispose(): void {
    this.item.dispose();
  }

  connected(isConnected: boolean): void {
    this.isConnected = isConnected;
    this.running.clear();
    this.questions.clear();
    this.show();
  }

  event({ session_id, event }: Envelope): void {
    switch (event.type) {
      case "agent_start":
      case "compaction_start":
        this.running.add(session_id);
        break;
      case "agent_settled":
        this.running.delete(session_id);
        break;
      case "permission_request":
      case "input_request":
        this.questions.add(event.request_id);
        break;
      case "permission_resolved":
      case "input_resolved":
        this.questions.delete(event.request_id);
        break;
      default:
        return;
    }
    this.show();
  }

  private show(): void {
    const [icon, state] = !this.isConnected
      ? ["$(circle-slash)", "the server does not run"]
      : this.questions.size > 0
        ? ["$(question)", this.questions.size === 1 ? "1 question" : `${this.questions.size} questions`]
        : this.running.size > 0
          ? ["$(loading~spin)", "working"]
          : ["¶", "ready"];
    this.item.text = `${icon} Pilcrow`;
    this.item.tooltip = `Pilcrow: ${state}`;
    this.item.accessibilityInformation = { label: `Pilcrow: ${state}` };
    const asks = this.isConnected && this.questions.size > 0;
    this.item.backgroundColor = asks ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  }
}
