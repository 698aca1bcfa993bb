//! A request in a comment, in three languages and three editors.
//!
//! The model never sees the line, the first edit removes it, and undo restores it.

use tests::Sandbox;
use tests::editors::neovim::{Setup, lua_string};
use tests::editors::{Emacs, Model, Neovim, VsCode, alone};

/// File, text with the request, second line after the run, and text after it.
const FILES: &[(&str, &str, &str, &str)] = &[
    (
        "app.py",
        "# ¶ make it shout\ndef greet(name):\n    return \"hello \" + name\n",
        "    return \"HELLO \" + name",
        "def greet(name):\n    return \"HELLO \" + name\n",
    ),
    (
        "lib.rs",
        "// ¶ make it shout\nfn greet() -> &'static str {\n    \"hello\"\n}\n",
        "    \"HELLO\"",
        "fn greet() -> &'static str {\n    \"HELLO\"\n}\n",
    ),
    (
        "page.html",
        "<ul>\n  <!-- ¶ make it shout -->\n  <li>hello</li>\n</ul>\n",
        "  <li>HELLO</li>",
        "<ul>\n  <li>HELLO</li>\n</ul>\n",
    ),
];

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    for (path, before, ..) in FILES {
        sandbox.write(path, before);
    }
    sandbox.make_repository();
    sandbox
}

fn script(model: &Model<'_>, path: &str, line: &str) {
    model.edits(path, &["¶", "make it shout"], &[format!("PUT 2:\n+{line}")], &format!("shouted in {path}"));
}

fn line_of_request(text: &str) -> u64 {
    text.lines().position(|line| line.contains('¶')).unwrap() as u64 + 1
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_carries_out_requests_in_comments() {
    let _alone = alone();
    for setup in [Setup::Plugin, Setup::Bare] {
        let sandbox = project();
        let model = Model::install(&sandbox);
        let files: Vec<&str> = FILES.iter().map(|file| file.0).collect();
        let neovim = Neovim::start(&sandbox, setup, &files);
        for (path, before, line, after) in FILES {
            script(&model, path, line);
            neovim.show(path);
            neovim.keys(&format!(":{}<CR>", line_of_request(before)));
            let filter = lua_string("return a.title:find('Run') ~= nil and a.title:find('¶') ~= nil");
            neovim.keys(&format!(
                ":lua vim.lsp.buf.code_action({{ apply = true, filter = function(a) return load('local a = ...; ' .. {filter})(a) end }})<CR>"
            ));
            let (before, after) = (before.trim_end(), after.trim_end());
            neovim.wait_text(path, &format!("the request is carried out, {setup:?}"), |text| text == after);
            neovim.wait_lua(
                "the message is shown",
                &format!("return vim.fn.execute('messages'):find('shouted in {path}') ~= nil"),
            );
            // The edit also removed the line: one undo restores both.
            neovim.keys("u");
            neovim.wait_text(path, &format!("one undo, {setup:?}"), |text| text == before);
        }
    }
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_carries_out_requests_in_comments() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    let mut code = VsCode::start(&sandbox, "vscode-request-lines");
    for (path, before, line, after) in FILES {
        script(&model, path, line);
        code.open(path);
        code.shows("Run ¶", Some(".editor-group-container.active .codelens-decoration"));
        code.screenshot(&format!("{path}-asked"));
        code.click("Run ¶", Some(".editor-group-container.active .codelens-decoration"));
        code.wait_document(path, "the request is carried out", |it| it.text == *after && it.dirty);
        code.shows(&format!("shouted in {path}"), None);
        code.screenshot(&format!("{path}-done"));
        code.goto(1, 1);
        code.press("Control+Z");
        code.wait_document(path, "one undo", |it| it.text == *before);
    }
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn emacs_with_eglot_carries_out_requests_in_comments() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    let emacs = Emacs::start(&sandbox);
    for (path, before, line, after) in FILES {
        script(&model, path, line);
        emacs.eval_in(
            path,
            "(progn (switch-to-buffer (current-buffer)) (eglot-ensure) (run-hooks 'post-command-hook) t)",
        );
        emacs.wait_in(path, "eglot manages the file", "(and (eglot-managed-p) t)");
        // The user chooses the action by its title.
        let choose = "(cl-letf (((symbol-function 'completing-read) (lambda (_ choices &rest _) \
                      (car (seq-find (lambda (it) (string-match-p \"Run.*¶\" (car it))) choices)))) (last-nonmenu-event ?x)) \
                      (call-interactively 'eglot-code-actions))";
        emacs.eval_in(
            path,
            &format!(
                "(progn (goto-char (point-min)) (forward-line {}) {choose} t)",
                line_of_request(before) - 1
            ),
        );
        let is =
            |text: &str| format!("(string= (buffer-string) {})", tests::editors::emacs::lisp_string(text));
        emacs.wait_in(path, "the request is carried out", &is(after));
        emacs.eval_in(path, "(let ((last-command nil)) (undo-boundary) (undo) t)");
        emacs.wait_in(path, "one undo", &is(before));
        emacs.eval_in(path, "(progn (set-buffer-modified-p nil) (kill-buffer) t)");
    }
}
