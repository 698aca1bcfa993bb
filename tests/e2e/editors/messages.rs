//! Rendering of an answer in editors.
//!
//! The answer is readable, it opens whole, and it never requires a key to continue.

use expect_test::expect;
use serde_json::json;
use tests::editors::emacs::lisp_string;
use tests::editors::neovim::Setup;
use tests::editors::{Emacs, Model, Neovim, PATIENCE, VsCode, alone};
use tests::{Sandbox, check_output, line_with, wait_for};

fn long() -> String {
    (1..=40).map(|line| format!("line {line} of an answer\n")).collect()
}

/// A project with two files and a model.
fn project() -> Sandbox {
    let sandbox = Sandbox::with(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    sandbox.make_repository();
    sandbox
}

/// Writes a script of a model that changes both files and then sends `answer`.
fn edits_both(model: &Model<'_>, answer: &str) {
    let read = |file: &str| json!({"name": "read", "arguments": {"path": file}});
    let patch = "[a.txt#{{a}}]\nPUT 1:\n+ONE\n[b.txt#{{b}}]\nPUT 1:\n+ONE\n";
    model.says(&[
        json!({"tool_calls": [read("a.txt"), read("b.txt")]}),
        json!({
            "capture": {"a": {"after": "[a.txt#", "before": "]"}, "b": {"after": "[b.txt#", "before": "]"}},
            "tool_calls": [{"name": "edit", "arguments": {"patch": patch}}],
        }),
        json!({"expect": {"last_is_error": false}, "text": answer}),
    ]);
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_never_requires_enter_to_continue() {
    let _alone = alone();
    for setup in [Setup::Plugin, Setup::Bare] {
        let sandbox = project();
        let model = Model::install(&sandbox);
        let neovim = Neovim::start_in_terminal(&sandbox, setup, &["a.txt", "b.txt"]);
        let go = "local c = vim.lsp.get_clients({ name = 'pilcrow' })[1]; \
                  c:exec_cmd({ title = 'go', command = 'pilcrow.prompt', arguments = { { text = 'go' } } }); return true";

        // Two documents are edited, each with its own request, and two lines are shown.
        edits_both(&model, "made both");
        neovim.lua(go);
        neovim.wait_lua("the message is shown", "return vim.fn.execute('messages'):find('made both') ~= nil");
        assert!(!neovim.is_blocked(), "{setup:?}: {}", neovim.messages());
        let said = neovim.messages();
        let end = line_with(&said, "a.txt, b.txt").rsplit(" · ").next().unwrap_or_default();
        check_output(end, &expect!["changed and not saved: a.txt, b.txt"]);
        assert!(!said.contains("Workspace edit"), "{setup:?}: {said}");

        model.says(&[json!({"text": long()})]);
        neovim.lua(go);
        neovim.wait_lua("the message is shown", "return vim.fn.execute('messages'):find('line 1 of') ~= nil");
        assert!(!neovim.is_blocked(), "{setup:?}: {}", neovim.messages());
        // The user continues at the same place.
        neovim.keys("gg0ityped <Esc>");
        neovim.wait_text("a.txt", "typing goes on", |text| text == "typed ONE");
        match setup {
            Setup::Plugin => {
                let shown = "table.concat(vim.fn.getbufline('pilcrow://answer', 1, '$'), '\\n')";
                assert_eq!(neovim.lua(&format!("return {shown}")), long().trim());
                let visible = "return vim.fn.bufwinid('pilcrow://answer') ~= -1";
                neovim.wait_lua("the answer is in a window", visible);
                neovim.keys(":Pilcrow transcript<CR>");
            }
            Setup::Bare => {
                neovim.lua(&go.replace("pilcrow.prompt", "pilcrow.transcript"));
            }
        }
        let opened = "return vim.api.nvim_buf_get_name(0):find('transcripts') ~= nil \
                      and vim.fn.search('line 40 of an answer', 'nw') > 0";
        neovim.wait_lua("the transcript is opened", opened);

        // A failure is shown in one line too.
        model.says(&[json!({"error": "the model is\nnot there\n".repeat(20)})]);
        neovim.lua(go);
        neovim.wait_lua(
            "the message is shown",
            "return vim.fn.execute('messages'):find('the model is') ~= nil",
        );
        assert!(!neovim.is_blocked(), "{setup:?}: {}", neovim.messages());
    }
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_shows_the_end_of_an_answer_whose_lines_are_wide() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    let neovim = Neovim::start_in_terminal(&sandbox, Setup::Plugin, &["a.txt"]);
    // The lines are wider than the terminal's 80 columns.
    model.says(&[json!({"text": format!("{}\nthe end", "wide ".repeat(30))})]);
    neovim.keys(":Pilcrow go<CR>");
    let seen = "local w = vim.fn.bufwinid('pilcrow://answer'); \
                return w ~= -1 and vim.fn.getbufline('pilcrow://answer', vim.fn.line('w$', w))[1] == 'the end'";
    neovim.wait_lua("its last line is visible", seen);
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn emacs_shows_an_answer_and_asks_nothing() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a.py", "one = 1\n")]);
    sandbox.make_repository();
    let model = Model::install(&sandbox);
    let emacs = Emacs::start(&sandbox);
    emacs.eval_in("a.py", "(progn (eglot-ensure) (run-hooks 'post-command-hook) t)");
    emacs.wait_in("a.py", "eglot manages the file", "(and (eglot-managed-p) t)");
    model.says(&[json!({"text": long()})]);
    // This is not `jsonrpc-request`: in Emacs 28 it leaves a message right after its answer unread
    // until more arrive.
    let command = |name: &str, argument: &str| {
        let call = format!(
            "(progn (jsonrpc-async-request (eglot-current-server) :workspace/executeCommand (list :command {} :arguments (vector {argument})) :success-fn #'ignore) t)",
            lisp_string(name)
        );
        emacs.eval_in("a.py", &call);
    };
    command("pilcrow.prompt", "(list :text \"go\")");
    let shown = "(with-current-buffer \"*Messages*\" (save-excursion (goto-char (point-min)) (and (search-forward \"line 3 of an answer\" nil t) (search-forward \"pilcrow.transcript\" nil t) t)))";
    emacs.wait_in("a.py", "the message with the command that shows the rest", shown);
    assert_eq!(emacs.eval("(active-minibuffer-window)"), "nil", "a question blocks the editor");
    command("pilcrow.transcript", "(list)");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_shows_a_spaced_answer_and_opens_the_rest() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    let mut code = VsCode::start(&sandbox, "vscode-messages");
    code.open("b.txt");
    code.open("a.txt");
    edits_both(&model, "made both");
    code.command("Pilcrow: Prompt…");
    code.answer("go");
    code.shows("made both (not saved: a.txt, b.txt)", Some(".notifications-toasts"));
    code.screenshot("1-short");
    model.says(&[json!({"text": long()})]);
    code.command("Pilcrow: Prompt…");
    code.answer("go");
    code.shows("line 1 of an answer …", Some(".notifications-toasts"));
    code.screenshot("2-long");
    code.click("Open transcript", Some(".notifications-toasts"));
    code.shows("line 9 of an answer", Some(".editor-group-container.active"));
    code.screenshot("3-transcript");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn a_question_waits_for_normal_mode_but_not_after_its_run() {
    let _alone = alone();
    let sandbox = project();
    Model::install(&sandbox);
    let neovim = Neovim::start_in_terminal(&sandbox, Setup::Plugin, &["a.txt", "b.txt"]);
    neovim.lua(
        "local p = require('pilcrow'); answers = {}; ask = function(n) coroutine.wrap(function() \
           local params = { type = 3, message = 'Sure?', actions = { { title = 'Yes' } }, pilcrow = { question = n } }; \
           answers[n] = p.on_question(nil, params, { client_id = 9, method = 'window/showMessageRequest' }) \
         end)() end; over = function(n) p.on_question_over(nil, { question = n }, { client_id = 9 }) end; return true",
    );
    let known = "return answers[1] == vim.NIL";
    for (enter, mode, leave) in [("i", "i", "<Esc>"), ("v", "v", "<Esc>"), ("i<C-o>v", "v", "<Esc><Esc>")] {
        neovim.keys(enter);
        neovim.wait("the mode", "mode()", |now| now == mode);
        neovim.lua("ask(1); vim.schedule(function() over(1) end); return true");
        neovim.keys(leave);
        neovim.wait_lua(mode, known);
        assert!(!neovim.is_blocked(), "{enter}: {}", neovim.messages());
        neovim.lua("answers[1] = nil; return true");
    }
    // The question appears while its run is active.
    neovim.keys("v");
    neovim.wait("the mode", "mode()", |now| now == "v");
    neovim.lua("ask(2); return true");
    assert!(!neovim.is_blocked());
    neovim.keys("<Esc>");
    assert!(wait_for(PATIENCE, || neovim.log().contains("1: Yes")), "never asked: {}", neovim.log());
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_puts_lists_into_the_quickfix_list() {
    let _alone = alone();
    let files = [
        ("a.py", "é = 1\ndef greet():\n    return missing\n\n\né, x = 2, greet()\n"),
        ("b.py", "import a\n\n\na.greet()\n"),
    ];
    let sandbox = Sandbox::with(&files);
    sandbox.make_repository();
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let neovim = Neovim::start_in_terminal(&sandbox, Setup::Plugin, &["a.py"]);
    let listed = |request: &str, wanted: &expect_test::Expect| {
        neovim.lua("vim.fn.setqflist({}, 'r'); vim.cmd.cclose(); return true");
        neovim.keys(&format!(":Pilcrow {request}<CR>"));
        neovim.wait_lua(
            "the list",
            "return #vim.fn.getqflist() > 0 and vim.fn.execute('messages'):find(':copen') ~= nil",
        );
        assert!(!neovim.is_blocked(), "{request}: {}", neovim.messages());
        let rows = neovim.lua(
            "return vim.tbl_map(function(it) return ('%s:%d:%d:%s: %s'):format(vim.fn.bufname(it.bufnr), it.lnum, it.col, it.type, it.text) end, vim.fn.getqflist())",
        );
        let rows: Vec<&str> = rows.as_array().unwrap().iter().filter_map(|row| row.as_str()).collect();
        wanted.assert_eq(&rows.join("\n"));
        // The quickfix window is open, and the cursor is still in the file.
        assert_eq!(neovim.eval("getwininfo()->filter('v:val.quickfix')->len()"), 1);
        assert_eq!(neovim.eval("bufname()"), "a.py");
    };
    listed(
        "find references of greet",
        &expect_test::expect![[r#"
        a.py:2:5:: def greet():
        a.py:6:12:: é, x = 2, greet()
        b.py:4:3:: a.greet()"#]],
    );
    listed(
        "who calls greet",
        &expect_test::expect![[r#"
        a.py:6:12:: é, x = 2, greet()
        b.py:4:3:: a.greet()"#]],
    );
    listed(
        "list symbols in a.py",
        &expect_test::expect![[r#"
        a.py:1:0:: variable é
        a.py:2:0:: function greet
        a.py:6:0:: variable x"#]],
    );
    listed(
        "show errors in a.py",
        &expect_test::expect![[r#"
        a.py:2:0:W: Return type is unknown [reportUnknownParameterType]
        a.py:3:0:E: "missing" is not defined [reportUndefinedVariable]
        a.py:3:0:E: Undefined name `missing` [F821]
        a.py:3:0:W: Return type is unknown [reportUnknownVariableType]
        a.py:6:0:W: Type of "x" is unknown [reportUnknownVariableType]"#]],
    );
}
