//! Patches that seem truncated, or omit text, are refused.

use expect_test::expect;
use hashline::{Patch, Reason};

use crate::session::{Session, check, check_refused};

#[test]
fn an_unpasted_register_is_refused() {
    let refusal = check_refused("a\nb\nc\n", "CUT 1cu @keep\n", Reason::InvalidPatch);
    expect![[r#"
        Not applied, nothing was changed.
        f: the patch does not paste the lines cut into @keep; add `PUT … @keep`, or omit the name to delete
        [f#D988]
        1cu	a
        2vn	b
        3dn	c
    "#]]
    .assert_eq(&refusal.render());
    let mut session = Session::new(&[("f", "a\nb\n"), ("g", "x\n")]);
    let (f, g) = (session.read("f"), session.read("g"));
    let cut = format!("[f#{f}]\nCUT {} @r\n", session.anchor("f", 2));
    session.edited(&format!("{cut}[g#{g}]\nPUT >$ @r\n"));
    assert_eq!((session.text("f"), session.text("g")), ("a\n", "x\nb\n"));
}

#[test]
fn an_unclosed_envelope_is_refused() {
    let patch = "[f#3F2A]\nPUT 2:\n+x\n";
    for (opening, closing) in [("```\n", "```\n"), ("*** Begin Patch\n", "*** End Patch\n")] {
        let cut_off = Patch::parse(&format!("{opening}{patch}")).unwrap_err().to_string();
        assert!(cut_off.contains("cut off"), "{cut_off}");
        Patch::parse(&format!("{opening}{patch}{closing}")).unwrap();
    }
}

#[test]
fn a_byte_order_mark_before_the_patch_is_ignored() {
    assert!(Patch::parse("\u{feff}[f#3F2A]\nCUT 2\n").is_ok());
    assert!(Patch::parse("\u{feff}```\n[f#3F2A]\nCUT 2\n```\n").is_ok());
}

#[test]
fn placeholder_rows_are_refused() {
    let mut session = Session::new(&[("f", "def f():\n    a = 1\n    b = 2\n    c = 3\n    return a\n")]);
    let tag = session.read("f");
    let range = format!("PUT {}..={}:", session.anchor("f", 1), session.anchor("f", 5));
    let body = "+def f():\n+    a = 9\n+    # ... rest of the code unchanged ...\n";
    let refusal = session.refused_for(&format!("[f#{tag}]\n{range}\n{body}"), Reason::InvalidPatch);
    expect![[r#"
        Not applied, nothing was changed.
        f: the body row `# ... rest of the code unchanged ...` is a placeholder for omitted text; write all rows out, or replace fewer lines
        [f#5CDB]
        1cz	def f():
        2fj	    a = 1
        3pd	    b = 2
        4jn	    c = 3
        5vx	    return a
    "#]].assert_eq(&refusal.render());
    // The number of other rows does not matter.
    let longer = format!("[f#{tag}]\n{range}\n{body}+    b = 2\n+    return a\n");
    session.refused_for(&longer, Reason::InvalidPatch);
    // A row that the file already had leaves nothing out.
    let mut session = Session::new(&[("f", "class P:\n    x: int\n    y: int\n    ...\n")]);
    let tag = session.read("f");
    let range = format!("PUT {}..={}:", session.anchor("f", 2), session.anchor("f", 4));
    session.edited(&format!("[f#{tag}]\n{range}\n+    ...\n"));
}

#[test]
fn pasted_rows_must_be_the_replaced_lines() {
    let error = Patch::parse("[f#3F2A]\nPUT 2..=3:\n3cq:B\n4xx:C\n").unwrap_err().to_string();
    expect!["line 3 of the patch: the pasted rows begin at line 3, the replaced lines at 2; write the body as `+` rows"].assert_eq(&error);
    assert!(Patch::parse("[f#3F2A]\nPUT 2..=3:\n2cq:B\n3xx:C\n").is_ok());
    // Inserted rows have no numbers of their own.
    assert!(Patch::parse("[f#3F2A]\nPUT >2:\n7cq:B\n8xx:C\n").is_ok());
}

#[test]
fn blanks_of_a_path_are_kept_if_the_file_has_them() {
    let mut session = Session::new(&[("tw", "bare\n"), ("tw ", "blank\n")]);
    session.read("tw");
    let tag = session.read("tw ");
    session.edited(&format!("[tw #{tag}]\nPUT {}:\n+x\n", session.anchor("tw ", 1)));
    assert_eq!((session.text("tw"), session.text("tw ")), ("bare\n", "x\n"));
    let json = |path: &str, tag| {
        format!(r#"{{"path": "{path}", "tag": "{tag}", "edits": [{{"op": "append", "lines": ["y"]}}]}}"#)
    };
    let tag = session.read("tw ");
    session.edited(&json("tw ", tag));
    assert_eq!((session.text("tw"), session.text("tw ")), ("bare\n", "x\ny\n"));
    // Without a file of that name, the blanks are a mistake.
    let tag = session.read("tw");
    session.edited(&json(" tw", tag));
    assert_eq!(session.text("tw"), "bare\ny\n");
    check("a\n", "PUT >$:\n+b\n", "a\nb\n");
}
