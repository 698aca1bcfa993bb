//! The plugins by themselves: they load, report missing parts, and match their manifests.

use tests::Sandbox;
use tests::editors::neovim::{Setup, lua_string};
use tests::editors::{Neovim, VsCode, alone, plugin, vscode};

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_neovim_plugin_loads_and_reports_its_health() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &[]);
    assert_eq!(neovim.eval("exists(':Pilcrow')"), 2);
    assert_eq!(neovim.eval("getcompletion('Pilcrow ', 'cmdline')[0]"), "stop");
    neovim.lua("vim.cmd('checkhealth pilcrow'); return true");
    let said = neovim.eval("join(getline(1, '$'), \"\\n\")");
    let said = said.as_str().unwrap();
    assert!(said.contains("pilcrow: pilcrow 0."), "{said}");
    assert!(!said.contains("ERROR"), "{said}");

    // Neovim writes tags next to the help page, but this checkout must not change.
    let copy = sandbox.beside("plugin/doc");
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::copy(plugin("neovim/doc/pilcrow.txt"), copy.join("pilcrow.txt")).unwrap();
    let runtime = lua_string(&sandbox.beside("plugin").display().to_string());
    neovim.lua(&format!(
        "vim.opt.runtimepath:prepend({runtime}); vim.cmd.helptags({runtime} .. '/doc'); vim.cmd.help('pilcrow-undo'); return true"
    ));
    assert!(neovim.eval("getline('.')").as_str().unwrap().contains("*pilcrow-undo*"));
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_vscode_plugin_compiles_and_runs() {
    let _alone = alone();
    vscode::extension();
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let mut code = VsCode::start(&sandbox, "vscode-starts");
    code.open("a.txt");
    code.goto(1, 1);
    code.type_text("zero ");
    code.wait_document("a.txt", "the typing", |it| it.text == "zero one\n" && it.dirty);
    code.screenshot("typed");
    code.command("Pilcrow: Resume a Session…");
    code.shows("there is no session yet", None);
}
