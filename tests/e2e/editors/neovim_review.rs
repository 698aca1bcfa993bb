//! Review of the agent's changes in Neovim, driven by keys.

use expect_test::expect;
use serde_json::{Value, json};
use tests::editors::neovim::Setup;
use tests::editors::{Neovim, alone};
use tests::{Sandbox, check_output};

use super::sessions::{calls, scripted, shown, start};

const TEXT: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

/// A project whose model changes three files, with a question about the command.
fn project() -> Sandbox {
    let edit =
        |old: &str, new: &str| ("edit", json!({"path": "a.txt", "old_string": old, "new_string": new}));
    let lines = [
        calls(&[("read", json!({"path": "a.txt"}))]),
        calls(&[edit("one\n", "ONE\n"), edit("three\n", "THREE\nand more\n"), edit("five\n", "")]),
        calls(&[("bash", json!({"command": "echo new > made.txt; rm old.txt"}))]),
        json!({"text": "Done."}),
        json!({"expect": {"last_contains": ["go on"]}, "text": "Seen."}),
    ];
    let mut sandbox = scripted(&[("a.txt", TEXT), ("old.txt", "old\n")], &lines);
    sandbox.variables.insert("PILCROW_POLICY_MODE".to_owned(), "permissive".to_owned());
    sandbox
}

/// Lua that renders a file with its marks, as the user sees them.
fn marked(file: &str) -> String {
    format!(
        "local buffer = vim.fn.bufnr('{file}')
        local spaces = vim.api.nvim_get_namespaces()
        local above, below, added, note = {{}}, {{}}, {{}}, {{}}
        for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, spaces['pilcrow.review'], 0, -1, {{ details = true }})) do
          local row, details = mark[2], mark[4]
          for _, line in ipairs(details.virt_lines or {{}}) do
            local side = details.virt_lines_above and above or below
            side[row] = (side[row] or '') .. '-' .. vim.trim(line[1][1]) .. '\\n'
          end
          for covered = row, (details.end_row or row) - 1 do added[covered] = true end
          note[row] = details.virt_text and ' ' .. details.virt_text[1][1]
        end
        local text = ''
        for index, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, false)) do
          local row = index - 1
          text = text .. (above[row] or '') .. (added[row] and '+' or ' ') .. line .. (note[row] or '') .. '\\n' .. (below[row] or '')
        end
        return text"
    )
}

#[track_caller]
fn wait_marked(neovim: &Neovim<'_>, what: &str, file: &str, wanted: &str) {
    neovim.wait_lua(what, &format!("return (function() {} end)() == {wanted:?}", marked(file)));
}

fn listed(neovim: &Neovim<'_>) -> String {
    let items = neovim.lua(
        "return vim.tbl_map(function(item)
          return vim.fn.fnamemodify(vim.fn.bufname(item.bufnr), ':t') .. ':' .. item.lnum .. ' ' .. item.text
        end, vim.fn.getqflist())",
    );
    items.as_array().into_iter().flatten().filter_map(Value::as_str).map(|item| format!("{item}\n")).collect()
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_keeps_and_rejects_changes_by_keys() {
    let _alone = alone();
    let sandbox = project();
    let neovim = start(&sandbox, &["a.txt"]);
    neovim.keys("ichange it<C-s><Esc>");
    neovim.answer("Allow");
    neovim.wait_lua("the end of the run", &shown("Done."));
    let all = "-one\n+ONE\n two\n-three\n+THREE\n+and more\n four\n-five\n six\n seven\n";
    wait_marked(&neovim, "the changes are shown", "a.txt", all);

    // The marks follow the text while the user types.
    neovim.keys("<C-w>hjotyped");
    neovim.wait_text("a.txt", "typing", |text| text.contains("typed"));
    let typed = all.replace(" two\n", " two\n typed\n");
    assert_eq!(neovim.lua(&marked("a.txt")), typed);
    neovim.keys("<Esc>");

    // Next and previous, around the end.
    let mut lines = Vec::new();
    for keys in ["gg]h", "]h", "]h", "[h", "G2]h"] {
        neovim.keys(keys);
        lines.push(neovim.eval("line('.')"));
    }
    assert_eq!(lines, [4, 7, 1, 7, 4]);

    // Keep the change at the cursor, and reject another with a reason.
    neovim.keys("\\k");
    let kept = typed.replace("-three\n+THREE\n+and more\n", " THREE\n and more\n");
    wait_marked(&neovim, "one is kept", "a.txt", &kept);
    neovim.keys("]h\\rno hurry<CR>");
    let rejected = kept.replace("-five\n", " five\n");
    wait_marked(&neovim, "one is rejected", "a.txt", &rejected);
    neovim.wait_lua("the model gets the reason", &shown("I rejected one of your changes in a.txt"));
    // Escape rejects nothing.
    neovim.keys("gg\\rbecause<Esc>");
    assert_eq!(neovim.lua(&marked("a.txt")), rejected);

    // The list of all changes follows; a change is decided there too.
    neovim.keys(":Pilcrow changes<CR>");
    neovim.wait("the list", "&buftype", |kind| kind == "quickfix");
    check_output(
        &listed(&neovim),
        &expect![[r#"
            a.txt:1 +1 -1
            made.txt:1 new file
            old.txt:1 deleted
        "#]],
    );
    neovim.keys("gg:Pilcrow keep<CR>");
    neovim.wait_lua("the list follows", "return #vim.fn.getqflist() == 2");
    wait_marked(&neovim, "none is left", "a.txt", &rejected.replace("-one\n+ONE", " ONE"));
    neovim.wait_lua("the keys are gone", "return vim.fn.maparg(']h', 'n') == ''");
    neovim.keys(":Pilcrow reject all<CR><CR>");
    neovim.wait_lua("the list is empty", "return #vim.fn.getqflist() == 0");
    assert!(!sandbox.project().join("made.txt").exists());
    assert_eq!(sandbox.read("old.txt"), "old\n");
    assert_eq!(neovim.messages(), "");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_keeps_and_rejects_proposals_by_keys() {
    let _alone = alone();
    let mut sandbox = project();
    sandbox.variables.insert("PILCROW_EDIT_MODE".to_owned(), "propose".to_owned());
    let neovim = start(&sandbox, &["a.txt"]);
    neovim.keys("ichange it<C-s><Esc>");
    neovim.answer("Allow");
    neovim.wait_lua("the end of the run", &shown("Done."));
    // The buffer has the user's text: the proposed lines are below it.
    let all = "+one ¶ proposed\n-ONE\n two\n+three ¶ proposed\n-THREE\n-and more\n four\n+five ¶ proposed\n six\n seven\n";
    wait_marked(&neovim, "the proposals are shown", "a.txt", all);
    assert_eq!(sandbox.read("a.txt"), TEXT);
    neovim.keys("<C-w>hjotyped<Esc>");
    let typed = all.replace(" two\n", " two\n typed\n");
    wait_marked(&neovim, "the proposals follow the typing", "a.txt", &typed);

    neovim.keys("gg]h\\k");
    let kept = typed.replace("+three ¶ proposed\n-THREE\n-and more\n", " THREE\n and more\n");
    wait_marked(&neovim, "one is applied", "a.txt", &kept);
    assert_eq!(sandbox.read("a.txt"), TEXT);
    neovim.keys("]h\\rno hurry<CR>");
    let rejected = kept.replace("+five ¶ proposed\n", " five\n");
    wait_marked(&neovim, "one is rejected", "a.txt", &rejected);
    neovim.wait_lua("the model gets the reason", &shown("I rejected one of your changes in a.txt"));

    // The editor's own undo reverts what was kept, and the list has the rest.
    neovim.keys(":Pilcrow changes<CR>");
    neovim.wait("the list", "&buftype", |kind| kind == "quickfix");
    assert_eq!(listed(&neovim), "a.txt:1 proposed +1 -1\nmade.txt:1 new file\nold.txt:1 deleted\n");
    neovim.keys(":cclose<CR>u");
    let undone = rejected.replace(" THREE\n and more\n", " three\n");
    wait_marked(&neovim, "undo reverts it", "a.txt", &undone);
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_reviews_a_run_after_a_restart() {
    let _alone = alone();
    let sandbox = project();
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.txt"]);
    neovim.keys(":Pilcrow change it<CR>");
    neovim.answer("Allow");
    let all = "-one\n+ONE\n two\n-three\n+THREE\n+and more\n four\n-five\n six\n seven\n";
    wait_marked(&neovim, "the changes are shown", "a.txt", all);
    let count = "v:lua.require'pilcrow'.statusline()";
    neovim.wait("the other files count", count, |line| line == "¶ Pilcrow · 5 changes");
    neovim.keys(":wall<CR>:Pilcrow undo<CR>");
    wait_marked(
        &neovim,
        "all is undone",
        "a.txt",
        &TEXT.lines().map(|line| format!(" {line}\n")).collect::<String>(),
    );
    neovim.keys(":Pilcrow redo<CR>");
    wait_marked(&neovim, "all is done again", "a.txt", all);
    neovim.keys(":wall<CR>");
    neovim.wait("the file is saved", "&modified", |modified| modified == 0);
    drop(neovim);
    std::fs::remove_file(sandbox.beside("nvim.sock")).unwrap();

    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.txt"]);
    wait_marked(&neovim, "the changes are shown", "a.txt", all);
    // No model reads a reason, so Pilcrow asks for none.
    neovim.keys(":3,4Pilcrow reject<CR>");
    let rejected = all.replace("-three\n+THREE\n+and more\n", " three\n");
    wait_marked(&neovim, "one is rejected", "a.txt", &rejected);
    // The buffer's own undo and redo.
    neovim.keys("u");
    neovim.wait_text("a.txt", "the undo", |text| text.contains("THREE"));
    neovim.keys("<C-r>");
    wait_marked(&neovim, "it is rejected again", "a.txt", &rejected);
    neovim.keys(":Pilcrow keep file<CR>");
    let kept = "-one\n+ONE\n two\n three\n four\n-five\n six\n seven\n";
    let kept = kept.lines().filter(|line| !line.starts_with('-')).map(|line| format!(" {}\n", &line[1..]));
    wait_marked(&neovim, "the file is kept", "a.txt", &kept.collect::<String>());
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_restores_a_checkpoint() {
    let _alone = alone();
    let sandbox = project();
    let neovim = start(&sandbox, &["a.txt"]);
    neovim.keys("ichange it<C-s><Esc>");
    neovim.answer("Allow");
    neovim.wait_lua("the end of the run", &shown("Done."));
    neovim.wait_text("a.txt", "the edit", |text| text.starts_with("ONE"));
    neovim.keys("<C-w>k/change it<CR>R");
    neovim.answer("Files and conversation");
    neovim.wait_text("a.txt", "the files are restored", |text| format!("{text}\n") == TEXT);
    let transcript = "return table.concat(require('pilcrow.test').transcript(), '\\n')";
    neovim.wait_lua(
        "the conversation is restored",
        &format!("return (function() {transcript} end)() == '# Pilcrow'"),
    );
    neovim.wait_lua("the prompt is back", "return vim.api.nvim_buf_get_lines(require('pilcrow.test').session().prompt_buffer, 0, 1, false)[1] == 'change it'");
    assert!(!sandbox.project().join("made.txt").exists());
    neovim.keys("U");
    neovim.wait_text("a.txt", "the files are back", |text| text.starts_with("ONE"));
    neovim.wait_lua("the conversation is back", &shown("Done."));
    assert_eq!(sandbox.read("made.txt"), "new\n");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_asks_about_a_diagnostic() {
    let _alone = alone();
    let expected = "Fix the cause of this diagnostic (mylint W1): two is odd";
    let sandbox = scripted(
        &[("a.txt", TEXT)],
        &[json!({"expect": {"last_contains": [expected]}, "text": "It is even."})],
    );
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.txt"]);
    neovim.lua(
        "local found = { lnum = 1, col = 0, end_lnum = 1, end_col = 3, message = 'two is odd', source = 'mylint', code = 'W1' }
        vim.diagnostic.set(vim.api.nvim_create_namespace('mylint'), 0, { found })
        return true",
    );
    neovim.keys("2G:Pilcrow ask<CR>");
    neovim.answer("Ask Pilcrow: two is odd");
    neovim.wait("the answer", "execute('messages')", |said| {
        said.as_str().is_some_and(|said| said.contains("It is even."))
    });
}
