//! Live sessions in Neovim: the session view, driven by keys.

use expect_test::expect;
use serde_json::{Value, json};
use tests::editors::neovim::Setup;
use tests::editors::{Neovim, PATIENCE, alone};
use tests::processes::wait_for;
use tests::{Sandbox, check_output};

/// A project whose model follows this script.
pub fn scripted(files: &[(&str, &str)], lines: &[Value]) -> Sandbox {
    let mut sandbox = Sandbox::with(files);
    sandbox.make_repository();
    let script = sandbox.beside("script.jsonl");
    std::fs::write(&script, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    sandbox
}

pub fn calls(calls: &[(&str, Value)]) -> Value {
    let calls = calls.iter().map(|(name, arguments)| json!({"name": name, "arguments": arguments}));
    json!({"tool_calls": calls.collect::<Vec<_>>()})
}

/// Whether a line of the transcript contains `text`.
pub fn shown(text: &str) -> String {
    format!(
        "return table.concat(require('pilcrow.test').transcript(), '\\n'):find([[{text}]], 1, true) ~= nil"
    )
}

/// Lua that defines what the tests read, as the module `pilcrow.test`.
const READERS: &str = "
    local M = {}
    local function session() return require('pilcrow.session').current end
    M.session = session
    function M.transcript() return vim.api.nvim_buf_get_lines(session().buffer, 0, -1, false) end
    function M.window() return vim.fn.win_findbuf(session().buffer)[1] end
    function M.visible()
      return vim.api.nvim_win_call(M.window(), function()
        local lines, l = {}, 1
        while l <= vim.fn.line('$') do
          table.insert(lines, vim.fn.getline(l))
          local closed = vim.fn.foldclosedend(l)
          l = (closed == -1 and l or closed) + 1
        end
        return lines
      end)
    end
    package.loaded['pilcrow.test'] = M
    return true";

/// Opens a session as the user does, and types a prompt.
#[track_caller]
pub fn start<'a>(sandbox: &'a Sandbox, files: &[&str]) -> Neovim<'a> {
    let neovim = Neovim::start(sandbox, Setup::Plugin, files);
    neovim.lua(READERS);
    neovim.keys(":Pilcrow<CR>");
    neovim.wait_lua(
        "the session is open",
        "return vim.bo.filetype == 'pilcrow-prompt' and require('pilcrow.test').session().client ~= nil",
    );
    neovim
}

/// The lines that the user sees, with closed folds as one line.
#[track_caller]
fn visible(neovim: &Neovim<'_>) -> String {
    let lines = neovim.lua("return require('pilcrow.test').visible()");
    lines.as_array().unwrap().iter().filter_map(Value::as_str).map(|line| format!("{line}\n")).collect()
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_shows_a_session_with_its_plan_queue_and_questions() {
    let _alone = alone();
    let step = |text: &str, status: &str| json!({"text": text, "status": status});
    let steps = json!({"steps": [step("read it", "done"), step("change it", "active")]});
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "TWO"});
    let mut first = calls(&[("read", json!({"path": "a.txt"})), ("plan", steps)]);
    first["thinking"] = json!("a file");
    first["text"] = json!("I *read* it.");
    let lines = [
        first,
        calls(&[("ask", json!({"question": "Go on?", "options": ["Yes", "No"]}))]),
        calls(&[("edit", edit.clone())]),
        json!({"expect": {"last_contains": ["not so fast"]}, "tool_calls": calls(&[("edit", edit)])["tool_calls"]}),
        json!({"expect": {"last_is_error": false}, "text": "Changed."}),
        json!({"expect": {"last_contains": ["and then"]}, "text": "Thinking.", "wait_for_cancel": true}),
    ];
    let sandbox = scripted(&[("a.txt", "one\ntwo\n")], &lines);
    let neovim = start(&sandbox, &["a.txt"]);
    // The question waits while the user types, and so does the next prompt.
    neovim.keys("ichange it<C-s>");
    neovim.wait_lua("the question is shown", &shown("### Questions"));
    neovim.keys("and then<C-s>draft");
    neovim.wait_lua("the queue is shown", &shown("- and then (at the end)"));
    assert_eq!(neovim.eval("mode()"), "i");
    check_output(
        &visible(&neovim),
        &expect![[r#"
            # Pilcrow

            ## You

            change it

            ▸ thinking

            I *read* it.

            ▸ ✓ Read a.txt (<time>)
            ▸ ✓ Plan the steps (<time>)
            ▸ … Ask the user Go on?

            ---
            ### Plan
            - [x] read it
            - [ ] **now** change it

            ---
            ### Queue
            - and then (at the end)

            ---
            ### Questions
            - Go on?

            *working …*
        "#]],
    );
    neovim.keys("<Esc>");
    neovim.answer("Yes");
    // The first edit is refused with a reason; the second is allowed.
    neovim.answer("Deny");
    neovim.keys("not so fast<CR>");
    neovim.answer("Allow");
    neovim.wait_text("a.txt", "the edit", |text| text == "one\nTWO");
    neovim.wait_lua("the next message is sent", &shown("Thinking."));
    neovim.wait_lua(
        "the status line has the plan and the change",
        "return vim.endswith(require('pilcrow').statusline(), '/script.jsonl · working · plan 1/2 · 1 change')",
    );
    // <C-c> cancels; the draft is still there.
    neovim.keys("<C-c>");
    neovim.wait_lua("it stops", &shown("**Stopped**"));
    assert_eq!(neovim.eval("getline(1)"), "draft");
    check_output(
        &visible(&neovim),
        &expect![[r#"
        # Pilcrow

        ## You

        change it

        ▸ thinking

        I *read* it.

        ▸ ✓ Read a.txt (<time>)
        ▸ ✓ Plan the steps (<time>)
        ▸ ✓ Ask the user Go on? (<time>)
        ▸ ✗ Edit a.txt (<time>)
        ▸ ✓ Edit a.txt (<time>)

        Changed.

        ## You

        and then

        Thinking.

        > **Stopped**

        > **Note** changed and not saved: a.txt

        ---
        ### Plan
        - [x] read it
        - [ ] **now** change it
    "#]],
    );

    // A tool call closes and opens; the search has opened it ('foldopen').
    neovim.keys("<C-w>k/▸ ✓ Edit<CR>");
    let is_open = |is_open: bool| {
        let change = "vim.tbl_contains(require('pilcrow.test').visible(), '+TWO')";
        neovim.wait_lua("the tool call", &format!("return ({change}) == {is_open}"));
    };
    is_open(true);
    assert!(!visible(&neovim).contains("\n1cc"), "the others are closed");
    neovim.keys("<CR>");
    is_open(false);
    neovim.keys("<CR>");
    is_open(true);
    assert_eq!(neovim.eval("&modifiable"), 0);
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_session_view_survives_reloads_wiped_buffers_and_tabs() {
    let _alone = alone();
    let lines = [json!({"text": "one"}), json!({"text": "two"}), json!({"text": "three"})];
    let sandbox = scripted(&[("a.txt", "one\n")], &lines);
    let neovim = start(&sandbox, &["a.txt"]);
    let complete = |text: &str, count: u32| {
        neovim.wait_lua(text, &shown(text));
        let windows = "return #vim.fn.win_findbuf(require('pilcrow.test').session().buffer)";
        assert_eq!(neovim.lua(windows), count, "{text}");
    };
    neovim.keys("ifirst<Esc><CR>");
    complete("one", 1);
    let whole = visible(&neovim);
    neovim.keys("<C-w>k:edit!<CR>");
    neovim.wait_lua("it is drawn again", "return #require('pilcrow.test').transcript() > 3");
    assert_eq!(visible(&neovim), whole);
    // Both buffers are wiped.
    neovim.keys(":bwipeout!<CR>:bwipeout! pilcrow://prompt<CR>:Pilcrow<CR>");
    neovim.wait_lua("it is drawn again", "return #require('pilcrow.test').transcript() > 3");
    assert_eq!(visible(&neovim), whole);
    // A second tab shows the same session; its windows close in the first one.
    neovim.keys(":tabnew<CR>:Pilcrow<CR>isecond<Esc><CR>");
    complete("two", 2);
    neovim.keys("gt:Pilcrow<CR><C-w>c:Pilcrow<CR><C-w>k<C-w>c:Pilcrow<CR>ithird<Esc><CR>");
    complete("three", 2);
    assert_eq!(neovim.eval("winnr('$')"), 3);
    // A new session takes the windows of the other one; nothing was mapped globally.
    neovim.keys(":Pilcrow new<CR>");
    neovim.wait_lua("a new one", "return vim.api.nvim_buf_get_name(0) == 'pilcrow://prompt/2'");
    assert_eq!(neovim.eval("winnr('$')"), 3);
    let mapped = "return vim.tbl_filter(function(map) return (map.desc or ''):find('Pilcrow') ~= nil end, vim.api.nvim_get_keymap(''))";
    assert_eq!(neovim.lua(mapped), json!([]));
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn a_streaming_session_moves_no_cursor() {
    let _alone = alone();
    let text: String = (1..=300).map(|line| format!("line {line}\n")).collect();
    let more: String = (1..=30000).map(|line| format!("more {line}\n")).collect();
    let waiting = json!({"text": more, "chunk": 1, "wait_for_cancel": true});
    let lines = [json!({"text": text}), waiting, json!({"text": "the last answer"})];
    let sandbox = scripted(&[("a.txt", "one\n")], &lines);
    let neovim = start(&sandbox, &["a.txt"]);
    let at = "return vim.api.nvim_win_call(require('pilcrow.test').window(), function() return { vim.fn.line('.'), vim.fn.line('w0'), vim.fn.line('.') == vim.fn.line('$') } end)";
    neovim.keys("igo<Esc><CR>");
    neovim.wait_lua("the first answer", &shown("line 300"));
    neovim.wait_lua("the view follows", &format!("return (function() {at} end)()[3]"));
    // The user reads above, and types in another window.
    neovim.keys("<C-w>k100Gzt<C-w>j");
    let before = neovim.lua(at);
    assert_eq!(before, json!([100, 100, false]));
    neovim.lua(
        "_G.draws = {}
        vim.api.nvim_buf_attach(require('pilcrow.test').session().buffer, false, {
          on_lines = function() table.insert(_G.draws, vim.uv.hrtime() / 1e6) end,
        })
        return true",
    );
    neovim.keys("igo on<C-s><Esc><C-w>h");
    neovim.keys("otyped");
    // The answer is shown although it has not ended.
    neovim.wait_lua("the second answer", &shown("more 30000"));
    neovim.wait_text("a.txt", "typing", |text| text == "one\ntyped");
    assert_eq!(neovim.lua(at), before);
    assert_eq!(neovim.eval("mode()"), "i");
    neovim.lua("vim.cmd('Pilcrow stop') return true");
    neovim.wait_lua("the end", &shown("**Stopped**"));
    assert_eq!(neovim.eval("mode()"), "i");
    neovim.keys("<Esc><C-w>l<C-w>jigo on<C-s>");
    neovim.wait_lua("the third answer", &shown("the last answer"));
    assert_eq!(neovim.lua(at), before);
    let draws = neovim.lua("return _G.draws");
    let draws: Vec<f64> = draws.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(draws.len() > 2, "it streams: {draws:?}");
    assert!(draws.windows(2).all(|pair| pair[1] - pair[0] >= 45.0), "at most 20 updates a second: {draws:?}");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_completes_files_and_commands_in_the_prompt() {
    let _alone = alone();
    // The server adds the files to the messages.
    let file = "use a/b, look at @src/alpha.txt\n\n(This is about src/alpha.txt.)";
    let range = "@a.txt#L1-L2 say\n\n(This is about lines 1 to 2 of a.txt.)";
    let lines = [
        json!({"expect": {"last_contains": [file]}, "text": "Seen."}),
        json!({"expect": {"last_contains": [range]}, "text": "Said."}),
    ];
    let sandbox = scripted(&[("a.txt", "one\ntwo\n"), ("src/alpha.txt", "alpha\n")], &lines);
    let neovim = start(&sandbox, &["a.txt"]);
    neovim.keys("i/<C-x><C-o>");
    neovim.wait("/compact", "getline('.')", |line| line == "/compact");
    // The completion works in the prompt only.
    assert_eq!(neovim.eval("getbufvar('a.txt', '&omnifunc')"), "");
    neovim.keys("<Esc>ccuse a/b, look at @alp<C-x><C-o>");
    neovim.wait("the file", "getline('.')", |line| line == "use a/b, look at @src/alpha.txt");
    neovim.keys("<C-s>");
    neovim.wait_lua("the answer", &shown("Seen."));
    // A range of lines is mentioned.
    neovim.keys("<Esc><C-w>h:1,2Pilcrow<CR>Asay<C-s>");
    neovim.wait_lua("the second answer", &shown("Said."));
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_resumes_a_session_after_the_server_was_killed() {
    let _alone = alone();
    let lines = [json!({"text": "one", "wait_for_cancel": true})];
    let sandbox = scripted(&[("a.txt", "one\n")], &lines);
    let neovim = start(&sandbox, &["a.txt"]);
    neovim.keys("ifirst<C-s>draft<Esc>");
    neovim.wait_lua("the first answer", &shown("one"));
    neovim.lua(
        "for _, pid in ipairs(vim.api.nvim_get_proc_children(vim.uv.os_getpid())) do
          if vim.api.nvim_get_proc(pid).name == 'pilcrow' then vim.uv.kill(pid, 'sigkill') end
        end
        return true",
    );
    neovim.wait_lua("the view reports it", &shown("**The server ended.**"));
    let message =
        "return vim.fn.execute('messages'):find('pilcrow: the server ended by signal 9', 1, true) ~= nil";
    neovim.wait_lua("a message reports it", message);
    assert_eq!(neovim.eval("getline(1)"), "draft");
    // The next message starts the server, which continues the session.
    neovim.keys("<CR>");
    neovim.wait_lua("the session continues", &shown("## You\n\ndraft\n\none"));
    neovim.keys("iquick<Esc>:Pilcrow!<CR>");
    neovim.wait_lua("the message waits", &shown("- quick (after this turn)"));
    neovim.keys("<C-c>");
    neovim.wait_lua("it stops", &shown("**Stopped**"));
    check_output(
        &visible(&neovim),
        &expect![[r#"
            # Pilcrow

            ## You

            first

            ## You

            draft

            one

            > **Stopped**

            ---
            ### Queue
            - quick (after this turn)
        "#]],
    );
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn neovim_picks_sessions_and_options() {
    let _alone = alone();
    let lines = [json!({"text": "one"}), json!({"text": "two"}), json!({"text": "three"})];
    let sandbox = scripted(&[("a.txt", "one\n")], &lines);
    let neovim = start(&sandbox, &["a.txt"]);
    neovim.keys("ifirst<C-s><Esc>");
    neovim.wait_lua("the first answer", &shown("one"));
    neovim.keys(":Pilcrow new<CR>");
    neovim.wait_lua("a new one", "return require('pilcrow.test').session().client ~= nil");
    neovim.keys("isecond<C-s><Esc>");
    neovim.wait_lua("the second answer", &shown("## You\n\nsecond"));
    // The first session is shown again, in the same windows.
    neovim.keys(":Pilcrow resume<CR>");
    let offered = wait_for(PATIENCE, || neovim.log().lines().any(|line| line.ends_with("  first")));
    assert!(offered, "it offers the sessions");
    neovim.keys("2<CR>");
    neovim.wait("the first one", "bufname()", |name| name == "pilcrow://prompt/1");
    assert_eq!(neovim.eval("winnr('$')"), 3);

    let option = |id: &str| {
        format!(
            "return vim.iter(require('pilcrow.test').session().options):find(function(it) return it.id == '{id}' end).currentValue"
        )
    };
    neovim.keys(":Pilcrow model<CR>");
    neovim.answer("  Another model …");
    neovim.keys("planner<CR>");
    neovim.wait_lua("the model", &format!("return (function() {} end)() == 'planner'", option("model")));
    neovim.wait("the status line", "v:lua.require'pilcrow'.statusline()", |line| line == "¶ planner");
    neovim.keys(":Pilcrow options<CR>");
    neovim.answer("Mode: prompt");
    neovim.answer("  permissive");
    neovim.wait_lua("the mode", &format!("return (function() {} end)() == 'permissive'", option("mode")));
}
