//! A file that an editor has open, in real Neovim and real VS Code.
//!
//! Reads see unsaved typing, an edit follows it or is refused, and neither side overwrites the
//! other. The agent is `pilcrow` in a shell, whose calls the editor's own server carries out.

use expect_test::expect;
use tests::batch::View;
use tests::editors::neovim::Setup;
use tests::editors::{Neovim, PATIENCE, VsCode, alone};
use tests::sandbox::Ran;
use tests::{Sandbox, check_output, line_with, wait_for};

/// Actions that both editors support.
trait OpenEditor {
    /// Opens and shows a file.
    fn open_file(&mut self, file: &str);
    /// Types at a position, line and column from 1.
    ///
    /// The line has no other text before the column.
    fn type_at(&mut self, file: &str, line: u64, column: u64, text: &str);
    /// Types a line above another.
    fn type_line(&mut self, file: &str, line: u64, text: &str);
    /// Reloads the file from the disk.
    fn reload(&mut self, file: &str);
    /// Checks the disk for a newer version, as editors do when they get the focus.
    fn check_disk(&mut self);
    fn wait_for_text(&mut self, file: &str, what: &str, text: &str);
    fn is_unsaved(&mut self, file: &str) -> bool;
}

impl OpenEditor for Neovim<'_> {
    fn open_file(&mut self, file: &str) {
        self.keys(&format!(":edit {file}<CR>"));
        self.wait_lua(
            "the server knows the file",
            &format!(
                "return vim.fn.expand('%:t') == '{file}' and #vim.lsp.get_clients({{ name = 'pilcrow', bufnr = 0 }}) == 1"
            ),
        );
    }

    fn type_at(&mut self, file: &str, line: u64, column: u64, text: &str) {
        self.open_file(file);
        self.keys(&format!(":{line}<CR>{column}|i{text}<Esc>"));
    }

    fn type_line(&mut self, file: &str, line: u64, text: &str) {
        self.open_file(file);
        self.keys(&format!(":{line}<CR>O{text}<Esc>"));
    }

    fn reload(&mut self, file: &str) {
        self.open_file(file);
        self.keys(":edit!<CR>");
    }

    fn check_disk(&mut self) {
        self.keys(":checktime<CR>");
    }

    fn wait_for_text(&mut self, file: &str, what: &str, text: &str) {
        let text = text.trim_end_matches('\n');
        self.wait_text(file, what, |found| found == text);
    }

    fn is_unsaved(&mut self, file: &str) -> bool {
        self.is_modified(file)
    }
}

impl OpenEditor for VsCode<'_> {
    fn open_file(&mut self, file: &str) {
        self.open(file);
    }

    fn type_at(&mut self, file: &str, line: u64, column: u64, text: &str) {
        self.open(file);
        self.goto(line, column);
        self.type_text(text);
    }

    fn type_line(&mut self, file: &str, line: u64, text: &str) {
        self.open(file);
        self.goto(line, 1);
        self.type_text(text);
        self.press("Enter");
    }

    fn reload(&mut self, file: &str) {
        self.open(file);
        self.command("File: Revert File");
    }

    fn check_disk(&mut self) {}

    fn wait_for_text(&mut self, file: &str, what: &str, text: &str) {
        self.wait_document(file, what, |found| found.text == text);
    }

    fn is_unsaved(&mut self, file: &str) -> bool {
        self.document(file).unwrap().dirty
    }
}

const CLOSED: &str = "\u{feff}one\r\nfoo\r\nno end";
const HARD: &str = "x = 'a😀é\u{301}𝒳\tß' # foo";

fn lines() -> String {
    (1..=12).map(|line| if line == 10 { format!("{HARD}\n") } else { format!("line {line}\n") }).collect()
}

/// The output of `read` once it contains this.
#[track_caller]
fn read(sandbox: &Sandbox, file: &str, part: &str) -> (View, String) {
    let mut said = String::new();
    let came = wait_for(PATIENCE, || {
        said = sandbox.run(&["read", file]).expect(0).stdout;
        said.contains(part)
    });
    assert!(came, "{part:?} is never read in {file}:\n{said}");
    (View::parse(&said), said)
}

fn edit(sandbox: &Sandbox, patch: &str) -> Ran {
    sandbox.run_with_input(&["edit"], patch)
}

/// Checks the promises that hold for both editors.
fn check_promises(sandbox: &Sandbox, editor: &mut impl OpenEditor) {
    let original = lines();

    // Reads return unsaved typing and report it.
    editor.open_file("a.txt");
    editor.type_at("a.txt", 5, 1, "typed ");
    let mut now = original.replace("line 5", "typed line 5");
    editor.wait_for_text("a.txt", "typing", &now);
    let (view, said) = read(sandbox, "a.txt", "typed line 5");
    assert!(said.contains("not saved"), "{said}");

    // Typing above the lines read moves the edit, with no other effect.
    editor.type_line("a.txt", 3, "one more");
    now = now.replace("line 3", "one more\nline 3");
    editor.wait_for_text("a.txt", "a line above", &now);
    read(sandbox, "a.txt", "one more");
    let new = HARD.replace("foo", "bär𝒳");
    edit(sandbox, &view.put(HARD, &new)).expect(0);
    now = now.replace(HARD, &new);
    editor.wait_for_text("a.txt", "the edit on the line that moved", &now);

    // Typing in the lines read is a conflict, reported with the current text; then the edit can be made.
    let (view, _) = read(sandbox, "a.txt", "bär");
    editor.type_at("a.txt", 12, 1, "mine ");
    now = now.replace("line 11", "mine line 11");
    editor.wait_for_text("a.txt", "typing in the line", &now);
    read(sandbox, "a.txt", "mine line 11");
    let refused = edit(sandbox, &view.put("line 11", "agent")).expect(1);
    check_output(line_with(&refused.all(), "mine"), &expect!["12ps	mine line 11"]);
    editor.wait_for_text("a.txt", "it changes no line", &now);
    let (view, _) = read(sandbox, "a.txt", "mine line 11");
    edit(sandbox, &view.put("mine line 11", "agent and mine")).expect(0);
    now = now.replace("mine line 11", "agent and mine");
    editor.wait_for_text("a.txt", "the second attempt", &now);
    assert!(editor.is_unsaved("a.txt"));
    assert_eq!(sandbox.read("a.txt"), original, "a file was saved");

    // The file is unsaved in the editor and changed on the disk: no edit until the user has chosen.
    editor.open_file("b.txt");
    editor.type_at("b.txt", 1, 1, "typed ");
    editor.wait_for_text("b.txt", "typing", "typed b\n");
    read(sandbox, "b.txt", "typed b");
    sandbox.write("b.txt", "b of another branch\n");
    let (view, _) = read(sandbox, "b.txt", "typed b");
    let refused = edit(sandbox, &view.put("typed b", "edited")).expect(1);
    check_output(
        line_with(&refused.all(), "b.txt"),
        &expect![
            "<sandbox>/the project/b.txt cannot be written: another program changed the file; reload it in the editor, or save it to keep the editor's text"
        ],
    );
    editor.wait_for_text("b.txt", "no file changes", "typed b\n");
    assert_eq!(sandbox.read("b.txt"), "b of another branch\n");
    editor.reload("b.txt");
    editor.wait_for_text("b.txt", "the user chose the disk", "b of another branch\n");
    let (view, _) = read(sandbox, "b.txt", "another branch");
    edit(sandbox, &view.put("b of another branch", "edited")).expect(0);
    editor.wait_for_text("b.txt", "then it can be edited", "edited\n");

    // An edit of a closed file writes the disk, and the file is clean when opened.
    let closed = CLOSED;
    let (view, _) = read(sandbox, "c.txt", "foo");
    edit(sandbox, &view.put("foo", "bar")).expect(0);
    assert_eq!(sandbox.read("c.txt"), closed.replace("foo", "bar"));
    editor.open_file("c.txt");
    read(sandbox, "c.txt", "bar");
    assert!(!editor.is_unsaved("c.txt"));

    // The editor reads an open file again that another program changed, and the edit applies to the
    // new text.
    editor.open_file("d.txt");
    editor.wait_for_text("d.txt", "the file is open", "old\nfoo\n");
    read(sandbox, "d.txt", "old");
    sandbox.write("d.txt", "new\nnew\nfoo\n");
    editor.check_disk();
    editor.wait_for_text("d.txt", "the editor has the new text", "new\nnew\nfoo\n");
    let (view, said) = read(sandbox, "d.txt", "new");
    assert!(!said.contains("old"), "{said}");
    edit(sandbox, &view.put("foo", "bar")).expect(0);
    editor.wait_for_text("d.txt", "the edit in the new text", "new\nnew\nbar\n");
    // The edit went through the editor.
    assert!(editor.is_unsaved("d.txt"));
    assert_eq!(sandbox.read("d.txt"), "new\nnew\nfoo\n");
}

fn project() -> Sandbox {
    let sandbox = Sandbox::with(&[
        ("a.txt", &lines()),
        ("b.txt", "b\n"),
        ("c.txt", CLOSED),
        ("d.txt", "old\nfoo\n"),
        ("e.txt", "e\n"),
    ]);
    sandbox.make_repository();
    sandbox
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_edits_respect_unsaved_typing() {
    let _alone = alone();
    let sandbox = project();
    let mut neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.txt"]);
    check_promises(&sandbox, &mut neovim);
    assert!(!neovim.messages().contains("W1"), "{}", neovim.messages());

    // The file is reloaded, wiped out and opened again: the same version numbers, another text.
    neovim.type_at("e.txt", 1, 1, "typed ");
    let (stale, _) = read(&sandbox, "e.txt", "typed e");
    neovim.keys(":edit!<CR>");
    neovim.wait_for_text("e.txt", "reloaded", "e\n");
    read(&sandbox, "e.txt", "\te");
    neovim.keys(":bwipeout!<CR>");
    sandbox.write("e.txt", "another e\n");
    neovim.open_file("e.txt");
    edit(&sandbox, &stale.put("typed e", "lost")).expect(1);
    let (view, _) = read(&sandbox, "e.txt", "another e");
    edit(&sandbox, &view.put("another e", "edited")).expect(0);
    neovim.wait_for_text("e.txt", "the edit in the current text", "edited\n");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_edits_respect_unsaved_typing() {
    let _alone = alone();
    let sandbox = project();
    let mut code = VsCode::start(&sandbox, "vscode-truth");
    check_promises(&sandbox, &mut code);
    code.screenshot("end");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_does_not_edit_a_buffer_closed_during_the_edit() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a (1) [x].txt", "one\ntwo\n"), ("b.txt", "b\n")]);
    sandbox.make_repository();
    let file = "a (1) [x].txt";
    let mut neovim = Neovim::start(&sandbox, Setup::Plugin, &["b.txt"]);
    neovim.lua(&format!("vim.cmd.edit(vim.fn.fnameescape('{file}')); return true"));
    neovim.wait_lua("the file is known", "return #vim.lsp.get_clients({ name = 'pilcrow', bufnr = 0 }) == 1");
    neovim.keys("ggItyped <Esc>");
    let (view, _) = read(&sandbox, file, "typed one");
    // The path is spelled with brackets and blanks, and is found while it is open.
    edit(&sandbox, &view.put("two", "due")).expect(0);
    neovim.wait_lua("the edit", "return vim.fn.getline(2) == 'due'");
    let (view, _) = read(&sandbox, file, "due");
    neovim.lua(
        "local handlers = vim.lsp.get_clients({ name = 'pilcrow' })[1].handlers; local own = handlers['workspace/applyEdit']; \
         handlers['workspace/applyEdit'] = function(...) vim.cmd('silent! %bwipeout!'); return own(...) end; return true",
    );
    edit(&sandbox, &view.put("due", "tre")).expect(1);
    let loaded =
        "return #vim.tbl_filter(function(b) return vim.bo[b].modified end, vim.api.nvim_list_bufs())";
    assert_eq!(neovim.lua(loaded), 0, "an edit in a hidden buffer");
    assert_eq!(sandbox.read(file), "one\ntwo\n");
    neovim.open_file("b.txt");
}

/// Covers Neovim without the plugin, which reports a dropped edit as applied.
#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn bare_neovim_retries_or_reports_a_dropped_edit() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n")]);
    sandbox.make_repository();
    let mut neovim = Neovim::start(&sandbox, Setup::Bare, &["a.txt"]);
    // Neovim does not check version 0.
    neovim.type_at("a.txt", 1, 1, "typed ");
    let (view, _) = read(&sandbox, "a.txt", "typed one");
    neovim.lua(
        "local own = vim.lsp.handlers['workspace/applyEdit']; _G.races, _G.said = 1, {}; \
         vim.lsp.handlers['workspace/applyEdit'] = function(err, params, ctx) \
           if _G.races > 0 then _G.races = _G.races - 1; vim.api.nvim_buf_set_lines(0, 0, 0, false, { 'in between' }) end; \
           local result = own(err, params, ctx); table.insert(_G.said, result.applied); return result end; \
         return true",
    );
    edit(&sandbox, &view.put("two", "due")).expect(0);
    neovim.wait_for_text("a.txt", "made again, once", "in between\ntyped one\ndue\n");
    assert_eq!(neovim.lua("return _G.said"), serde_json::json!([true, true]), "Neovim believed");

    let (view, _) = read(&sandbox, "a.txt", "due");
    neovim.lua("_G.races = 100; return true");
    let refused = edit(&sandbox, &view.put("due", "tre")).expect(1);
    check_output(
        line_with(&refused.all(), "applied"),
        &expect![
            "the editor did not apply the edit of <sandbox>/the project/a.txt; all changes were reverted: <sandbox>/the project/a.txt: unchanged (refused: the editor reported the edit as applied, but did not apply it)"
        ],
    );
    neovim.wait_for_text(
        "a.txt",
        "only the typed text",
        "in between\nin between\nin between\ntyped one\ndue\n",
    );
}
