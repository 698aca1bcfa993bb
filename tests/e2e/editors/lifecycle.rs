//! The life cycle of the server and its editor, and edits in the undo history.

use std::time::Duration;

use tests::editors::neovim::Setup;
use tests::editors::{Model, Neovim, VsCode, alone};
use tests::{Sandbox, wait_for};

/// Waits until the real language server that Pilcrow started runs.
#[track_caller]
fn a_language_server_runs(sandbox: &Sandbox) {
    let runs = wait_for(Duration::from_secs(120), || {
        sandbox.mark().living().iter().any(|found| found.command.contains("pyright"))
    });
    assert!(runs, "no language server: {:?}", sandbox.mark().living());
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn killing_neovim_ends_every_process_in_five_seconds() {
    let _alone = alone();
    let sandbox = Sandbox::itsdangerous();
    let mut neovim = Neovim::start(&sandbox, Setup::Plugin, &["src/itsdangerous/encoding.py"]);
    neovim.keys(":Pilcrow find references of want_bytes<CR>");
    a_language_server_runs(&sandbox);
    neovim.kill();
    sandbox.mark().none_left(Duration::from_secs(5));
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn killing_vscode_ends_every_process_in_five_seconds() {
    let _alone = alone();
    let sandbox = Sandbox::itsdangerous();
    let mut code = VsCode::start(&sandbox, "vscode-killed");
    code.open("src/itsdangerous/encoding.py");
    code.command("Pilcrow: Prompt…");
    code.answer("find references of want_bytes");
    a_language_server_runs(&sandbox);
    code.screenshot("running");
    code.kill();
    sandbox.mark().none_left(Duration::from_secs(5));
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn an_edit_in_neovims_insert_mode_is_its_own_undo_step() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n")]);
    sandbox.make_repository();
    let model = Model::install(&sandbox);
    model.edits("a.txt", &[], &["PUT 1:\n+ONE".to_owned()], "counted");
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.txt"]);
    neovim.keys("Goabc");
    neovim.wait_text("a.txt", "typing", |text| text == "one\ntwo\nthree\nabc");
    neovim.lua("require('pilcrow').prompt('go'); return true");
    neovim.wait_text("a.txt", "the edit while inserting", |text| text == "ONE\ntwo\nthree\nabc");
    assert_eq!(neovim.eval("mode()"), "i", "the edit left insert mode");
    neovim.keys("def<Esc>");
    neovim.wait_text("a.txt", "typing goes on", |text| text == "ONE\ntwo\nthree\nabcdef");
    neovim.keys("u");
    neovim.wait_text("a.txt", "first undo", |text| text == "ONE\ntwo\nthree\nabc");
    neovim.keys("u");
    neovim.wait_text("a.txt", "second undo", |text| text == "one\ntwo\nthree\nabc");
    neovim.keys("u");
    neovim.wait_text("a.txt", "third undo", |text| text == "one\ntwo\nthree");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn stop_in_neovim_ends_the_run() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    sandbox.make_repository();
    let model = Model::install(&sandbox);
    model.says(&[serde_json::json!({"text": "thinking for ever", "wait_for_cancel": true})]);
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.txt"]);
    neovim.lua("_G.kinds = {}; vim.api.nvim_create_autocmd('LspProgress', { callback = function(e) table.insert(_G.kinds, e.data.params.value.kind) end }); return true");
    neovim.keys(":Pilcrow think<CR>");
    neovim.wait_lua("progress is shown", "return vim.tbl_contains(_G.kinds, 'begin')");
    neovim.keys(":Pilcrow stop<CR>");
    neovim.wait_lua("progress ends", "return vim.tbl_contains(_G.kinds, 'end')");
    neovim.wait_lua("the message is shown", "return vim.fn.execute('messages'):find('stopped') ~= nil");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_steers_a_run_and_continues_its_conversation() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    sandbox.make_repository();
    let model = Model::install(&sandbox);
    model.says(&[serde_json::json!({"text": "thinking for ever", "wait_for_cancel": true})]);
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.txt"]);
    neovim.lua("_G.kinds = {}; vim.api.nvim_create_autocmd('LspProgress', { callback = function(e) table.insert(_G.kinds, e.data.params.value.kind) end }); return true");
    let said = |text: &str| format!("return vim.fn.execute('messages'):find({text:?}, 1, true) ~= nil");
    neovim.keys(":Pilcrow! are you there<CR>");
    neovim.wait_lua("the message is refused", &said("no active run"));
    neovim.keys(":Pilcrow think<CR>");
    neovim.wait_lua("progress is shown", "return vim.tbl_contains(_G.kinds, 'begin')");
    neovim.keys(":Pilcrow! leave the tests alone<CR>");
    // The server has the queue now: it returns undelivered messages.
    neovim.keys(":Pilcrow stop<CR>");
    neovim.wait_lua("it was said", "return table.concat(vim.api.nvim_buf_get_lines(vim.fn.bufnr('pilcrow://answer'), 0, -1, false), ' '):find('leave the tests alone', 1, true) ~= nil");
    let expect = serde_json::json!({"last_contains": ["and now"]});
    model.says(&[serde_json::json!({"expect": expect, "text": "the resumed answer"})]);
    neovim.lua(
        "vim.ui.select = function(items, opts, done) _G.offered = opts.format_item(items[1]); done(items[1]) end
         return true",
    );
    neovim.keys(":Pilcrow resume<CR>");
    neovim.wait("the session", "&filetype", |kind| kind == "pilcrow-prompt");
    neovim.keys("iand now<C-s>");
    let shown = "return table.concat(vim.api.nvim_buf_get_lines(require('pilcrow.session').current.buffer, 0, -1, false), ' '):find('the resumed answer', 1, true) ~= nil";
    neovim.wait_lua("it goes on", shown);
    neovim.wait_lua("it was offered", "return _G.offered:find('think', 1, true) ~= nil");
}
