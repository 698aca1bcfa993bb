//! The main use case in the editors: a rename across a package.
//!
//! Two files are open, with unsaved typing in one of them.

use std::collections::BTreeMap;

use tests::editors::neovim::Setup;
use tests::editors::{Neovim, PATIENCE, VsCode, alone};
use tests::{Sandbox, wait_for};

const OLD: &str = "want_bytes";
const NEW: &str = "to_bytes";
const DEFINED: &str = "src/itsdangerous/encoding.py";
const TYPED_IN: &str = "src/itsdangerous/signer.py";
const TYPING: &str = "# typed by hand";

/// The expected text of every file.
///
/// In Python files each whole word is replaced; no other text changes. (In this package words and
/// code agree, except in the text that the test types.)
fn renamed(tree: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let rename = |path: &String, bytes: &Vec<u8>| {
        if path.ends_with(".py") {
            words(&String::from_utf8_lossy(bytes)).into_bytes()
        } else {
            bytes.clone()
        }
    };
    tree.iter().map(|(path, bytes)| (path.clone(), rename(path, bytes))).collect()
}

/// Replaces whole words `OLD` by `NEW`.
fn words(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(OLD) {
        let (before, after) = (&rest[..at], &rest[at + OLD.len()..]);
        let whole = !before.chars().next_back().or(out.chars().next_back()).is_some_and(is_word)
            && !after.chars().next().is_some_and(is_word);
        out.push_str(before);
        out.push_str(if whole { NEW } else { OLD });
        rest = after;
    }
    out + rest
}

/// The errors that a server finds in the open files, with the new name.
///
/// They come through Pilcrow's server, which has the editor's texts.
#[track_caller]
fn errors(sandbox: &Sandbox) -> Vec<String> {
    let mut found = Vec::new();
    for file in [DEFINED, TYPED_IN] {
        let call = serde_json::json!({"action": "diagnostics", "file": file, "timeout": 100});
        let answer = sandbox.tool("lsp", &call);
        answer.ok();
        let details = &answer.value["details"];
        assert_eq!(details["pending"], serde_json::json!([]), "{details}");
        let all = details["diagnostics"].as_array().unwrap();
        let errors = all.iter().filter(|it| it["severity"] == "error");
        found.extend(errors.map(|it| words(it["message"].as_str().unwrap())));
    }
    found.sort();
    found
}

/// Neovim's own client of the language server, next to Pilcrow's.
///
/// Its diagnostics have a version.
const OWN_CLIENT: &str = "_G.checked = {}; \
    local own = vim.lsp.handlers['textDocument/publishDiagnostics']; \
    vim.lsp.config('basedpyright', { \
      cmd = { 'basedpyright-langserver', '--stdio' }, root_markers = { '.git' }, filetypes = { 'python' }, \
      handlers = { ['textDocument/publishDiagnostics'] = function(err, result, ctx) \
        _G.checked[vim.uri_to_bufnr(result.uri)] = result.version; return own(err, result, ctx) end } }); \
    _G.errors = function(file) \
      local b = vim.fn.bufnr(file); \
      if _G.checked[b] ~= vim.lsp.util.buf_versions[b] then return 'not checked' end; \
      local found = vim.tbl_map(function(d) return d.message end, \
        vim.diagnostic.get(b, { severity = vim.diagnostic.severity.ERROR })); \
      table.sort(found); return table.concat(found, '\\n') end; \
    vim.lsp.enable('basedpyright'); return true";

/// The errors that Neovim shows in an open file, for its current text.
#[track_caller]
fn shown_errors(neovim: &Neovim<'_>, file: &str) -> String {
    let look = format!("return _G.errors('{file}')");
    neovim.wait_lua(&format!("{file} is checked"), &look.replace("return ", "return 'not checked' ~= "));
    words(neovim.lua(&look).as_str().unwrap())
}

/// Checks that closed files are as `wanted`.
///
/// Open ones are as at the start, since no file was saved.
#[track_caller]
fn on_disk(sandbox: &Sandbox, start: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>) {
    let mut expected = wanted.clone();
    for open in [DEFINED, TYPED_IN] {
        expected.insert(open.to_owned(), start[open].clone());
    }
    let mut wrong = Vec::new();
    let came = wait_for(std::time::Duration::from_secs(30), || {
        let tree = sandbox.tree();
        let paths: std::collections::BTreeSet<&String> = tree.keys().chain(expected.keys()).collect();
        wrong = paths.into_iter().filter(|path| tree.get(*path) != expected.get(*path)).cloned().collect();
        wrong.is_empty()
    });
    assert!(came, "not as they should be on disk: {wrong:?}");
}

fn text_of(tree: &BTreeMap<String, Vec<u8>>, path: &str) -> String {
    String::from_utf8(tree[path].clone()).unwrap()
}

/// Records the diff that a question shows.
const RECORD_DIFF: &str = r"
vim.api.nvim_create_autocmd('FileType', { pattern = 'diff', callback = function(event)
  vim.g.shown_diff = table.concat(vim.api.nvim_buf_get_lines(event.buf, 0, -1, false), '\n')
  vim.g.shown_diff_buffer = event.buf
end })
return true";

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_renames_open_and_closed_files_and_undoes_it() {
    let _alone = alone();
    let sandbox = Sandbox::itsdangerous();
    let start = sandbox.tree();
    let after = renamed(&start);
    let lines = |text: String| text.trim_end_matches('\n').to_owned();
    let (defined, typed_in) = (lines(text_of(&start, DEFINED)), lines(text_of(&start, TYPED_IN)));
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &[TYPED_IN, DEFINED]);
    neovim.show(TYPED_IN);
    neovim.keys(&format!("ggO{TYPING}<Esc>"));
    let typed = format!("{TYPING}\n{typed_in}");
    neovim.wait_text(TYPED_IN, "the typing", |text| text == typed);
    neovim.lua(OWN_CLIENT);
    let errors_before = [DEFINED, TYPED_IN].map(|file| shown_errors(&neovim, file));

    neovim.show(DEFINED);
    neovim.lua(RECORD_DIFF);
    neovim.keys(&format!(":Pilcrow rename {OLD} to {NEW}<CR>"));
    neovim.answer("Allow");
    let typed_after = format!("{TYPING}\n{}", words(&typed_in));
    neovim.wait_text(DEFINED, "the rename", |text| text == words(&defined));
    neovim.wait_text(TYPED_IN, "the rename, beside the typing", |text| text == typed_after);
    on_disk(&sandbox, &start, &after);
    let diff = neovim.eval("get(g:, 'shown_diff', '')");
    assert!(diff.as_str().unwrap().lines().any(|line| line.starts_with('+') && line.contains(NEW)), "{diff}");
    assert_eq!(neovim.eval("bufnr(g:shown_diff_buffer)"), -1, "the diff stays behind");
    assert!(neovim.is_modified(DEFINED) && neovim.is_modified(TYPED_IN), "something was saved");
    // The editor's own language server shows no new error once it has both current files.
    for (file, before) in [DEFINED, TYPED_IN].iter().zip(&errors_before) {
        let mut now = String::new();
        let same = wait_for(PATIENCE, || {
            now = shown_errors(&neovim, file);
            now == *before
        });
        assert!(same, "{file} had these errors:\n{before}\nand has these:\n{now}");
    }

    // The editor's own undo runs file by file, and then its own redo.
    neovim.keys("u");
    neovim.wait_text(DEFINED, "one undo in the editor", |text| text == defined);
    neovim.keys("<C-r>");
    neovim.wait_text(DEFINED, "its redo", |text| text == words(&defined));
    neovim.show(TYPED_IN);
    neovim.keys("u");
    neovim.wait_text(TYPED_IN, "one undo beside the typing", |text| text == typed);
    neovim.keys("<C-r>");
    neovim.wait_text(TYPED_IN, "its redo beside the typing", |text| text == typed_after);

    neovim.keys(":Pilcrow undo<CR>");
    neovim.wait_text(DEFINED, "undo of all", |text| text == defined);
    neovim.wait_text(TYPED_IN, "undo of all keeps the typing", |text| text == typed);
    on_disk(&sandbox, &start, &start);
    assert!(neovim.is_modified(TYPED_IN), "the typing was saved");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_renames_open_and_closed_files_and_undoes_it() {
    let _alone = alone();
    let sandbox = Sandbox::itsdangerous();
    let start = sandbox.tree();
    let after = renamed(&start);
    let (defined, typed_in) = (text_of(&start, DEFINED), text_of(&start, TYPED_IN));
    let mut code = VsCode::start(&sandbox, "vscode-rename");
    code.open(TYPED_IN);
    code.goto(1, 1);
    code.type_text(TYPING);
    code.press("Enter");
    let typed = format!("{TYPING}\n{typed_in}");
    code.wait_document(TYPED_IN, "the typing", |it| it.text == typed && it.dirty);
    code.screenshot("1-typed");

    let errors_before = errors(&sandbox);
    code.open(DEFINED);
    let line = defined.lines().position(|line| line.contains(&format!("def {OLD}"))).unwrap() as u64 + 1;
    code.goto(line, 6);
    code.command("Pilcrow: Refactor…");
    code.screenshot("2-asked");
    code.answer(NEW);
    let typed_after = format!("{TYPING}\n{}", words(&typed_in));
    code.wait_document(DEFINED, "the rename", |it| it.text == words(&defined) && it.dirty);
    code.wait_document(TYPED_IN, "the rename, beside the typing", |it| it.text == typed_after && it.dirty);
    on_disk(&sandbox, &start, &after);
    code.screenshot("3-renamed");
    assert_eq!(errors(&sandbox), errors_before, "the language server shows other errors");
    assert_eq!(code.diagnostics(), Vec::<serde_json::Value>::new());

    code.press("Control+Z");
    code.wait_document(DEFINED, "one undo in the editor", |it| it.text == defined);
    code.press("Control+Shift+Z");
    code.wait_document(DEFINED, "its redo", |it| it.text == words(&defined));
    code.open(TYPED_IN);
    code.screenshot("4-beside-the-typing");
    code.press("Control+Z");
    code.wait_document(TYPED_IN, "one undo beside the typing", |it| it.text == typed && it.dirty);
    code.press("Control+Shift+Z");
    code.wait_document(TYPED_IN, "its redo beside the typing", |it| it.text == typed_after);

    code.command("Pilcrow: Undo");
    code.wait_document(DEFINED, "undo of all", |it| it.text == defined);
    code.wait_document(TYPED_IN, "undo of all keeps the typing", |it| it.text == typed && it.dirty);
    on_disk(&sandbox, &start, &start);
    code.screenshot("5-undone");
}
