// Reports to a test the state that a screen shows only in part: the texts of all documents, whether they are saved,
// where the cursor is, and the problems. It changes nothing.

const net = require("node:net");
const vscode = require("vscode");

const looks = {
  documents: () =>
    vscode.workspace.textDocuments.map((it) => ({
      uri: it.uri.toString(),
      path: it.uri.fsPath,
      text: it.getText(),
      dirty: it.isDirty,
      version: it.version,
    })),
  active() {
    const editor = vscode.window.activeTextEditor;
    return (
      editor && {
        path: editor.document.uri.fsPath,
        line: editor.selection.active.line,
        column: editor.selection.active.character,
        top: editor.visibleRanges[0]?.start.line,
      }
    );
  },
  diagnostics: () =>
    vscode.languages
      .getDiagnostics()
      .flatMap(([uri, list]) => list.map((it) => ({ path: uri.fsPath, severity: it.severity, message: it.message, source: it.source }))),
  extensions: () => vscode.extensions.all.filter((it) => it.isActive).map((it) => it.id),
};

exports.activate = () => {
  net
    .createServer((socket) => {
      socket.setEncoding("utf8");
      let pending = "";
      socket.on("data", (data) => {
        pending += data;
        const end = pending.indexOf("\n");
        if (end >= 0) {
          socket.end(JSON.stringify(looks[pending.slice(0, end)]() ?? null));
        }
      });
      socket.on("error", () => socket.destroy());
    })
    .listen(process.env.TEST_EYES);
};
