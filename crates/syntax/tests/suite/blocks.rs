//! Constructs that begin on a line.

use syntax::{Language, Stop, Tree};

/// Checks the last line of the block on each line of the text.
///
/// 0 means none; `x+y` means that the block ends at x and has its attributes from line y.
#[track_caller]
fn check(path: &str, text: &str, answers: &[&str]) {
    let tree = Tree::parse(Language::of(path, text).unwrap(), text, Stop::NEVER).unwrap();
    assert!(!tree.is_broken(text), "{:?}", tree.errors(text));
    let mut found = Vec::new();
    for line in 1..=text.lines().count() {
        found.push(match tree.block(text, line) {
            Ok(block) => {
                assert_eq!(*block.lines.start(), line);
                let leading = block.leading.map(|line| format!("+{line}")).unwrap_or_default();
                format!("{}{leading}", block.lines.end())
            }
            Err(_) => "0".to_owned(),
        });
    }
    assert_eq!(found, answers, "{text}");
}

#[track_caller]
fn unclear(path: &str, text: &str, line: usize, message: &str, ranges: &[(usize, usize)]) {
    let tree = Tree::parse(Language::of(path, text).unwrap(), text, Stop::NEVER).unwrap();
    let unclear = tree.block(text, line).unwrap_err();
    assert!(unclear.message.contains(message), "{unclear:?}");
    let found: Vec<(usize, usize)> =
        unclear.candidates.iter().map(|(lines, _)| (*lines.start(), *lines.end())).collect();
    assert_eq!(found, ranges, "{unclear:?}");
}

#[test]
fn a_first_statement_is_not_its_function() {
    check(
        "a.py",
        "def f(x):\n    y = 1\n    if y:\n        return y\n    else:\n        return x\n    return 0\n\n\nf(1)\n",
        &["7", "2", "6", "4", "6", "6", "7", "0", "0", "10"],
    );
    check(
        "a.go",
        "package a\n\nfunc F() int {\n\tx := 1\n\tif x > 0 {\n\t\treturn x\n\t}\n\treturn 0\n}\n",
        &["1", "0", "9", "4", "7", "6", "0", "8", "0"],
    );
    check("a.rs", "fn f() {\n    let x = 1;\n    g(x);\n}\n", &["4", "2", "3", "0"]);
    check(
        "a.js",
        "function f() {\n  const a = {\n    b: 1,\n  };\n  return a\n}\n",
        &["6", "4", "3", "0", "5", "0"],
    );
    check("a.lua", "function f()\n  local x = 1\n  return x\nend\n", &["4", "2", "3", "0"]);
    check("a.sh", "f() {\n  a=1\n  if true; then\n    b\n  fi\n}\n", &["6", "2", "5", "4", "0", "0"]);
    check("a.c", "int f(void) {\n  int x = 1;\n  return x;\n}\n", &["4", "2", "3", "0"]);
}

#[test]
fn attributes_decorators_and_doc_comments_go_with_their_item() {
    check(
        "a.rs",
        "/// Doc.\n/// More.\n#[derive(A)]\n#[b]\nstruct S {\n    /// Field.\n    #[c]\n    x: u8,\n    y: u8,\n}\n",
        &["10", "10+1", "10+1", "10+1", "10+1", "8", "8+6", "8+6", "9", "0"],
    );
    check(
        "a.py",
        "@a\n@b(1)\ndef f():\n    pass\n\nclass C:\n    @p\n    def g(self):\n        pass\n",
        &["4", "4+1", "4+1", "4", "0", "9", "9", "9+7", "9"],
    );
    check(
        "a.ts",
        "/** Doc. */\nfunction f() {\n}\n\nclass C {\n  @Input()\n  x = 1;\n\n  @Out() y() {\n  }\n}\n",
        &["3", "3+1", "0", "0", "11", "7", "0", "0", "10", "0", "0"],
    );
    check(
        "a.java",
        "class A {\n  /** Doc. */\n  @Override\n  public void f() {\n  }\n}\n",
        &["6", "5", "5+2", "0", "0", "0"],
    );
    check("a.go", "package a\n\n// F does.\n// More.\nfunc F() {}\n", &["1", "0", "5", "5+3", "5+3"]);
    check(
        "a.cpp",
        "/// Doc.\ntemplate <class T>\nT f(T x) {\n  return x;\n}\n",
        &["5", "5+1", "5+1", "4", "0"],
    );
}

#[test]
fn a_comment_does_not_separate_an_attribute_from_its_item() {
    check("a.rs", "#[test]\n// why\nfn t() {}\nfn helper() {}\n", &["3", "0", "3+1", "4"]);
    check("a.rs", "#[test] // why\nfn t() {}\n", &["2", "2+1"]);
    check("a.rs", "#[a] #[b]\nfn t() {}\n", &["2", "2+1"]);
    check("a.rs", "#[cfg(test)]\n// c\n#[a]\nmod m {\n}\n", &["5", "0", "5+1", "5+1", "0"]);
    check("a.rs", "struct S {\n    #[serde(skip)]\n    // c\n    x: u8,\n}\n", &["5", "4", "0", "4+2", "0"]);
    check("a.rs", "/// doc\n\n// c\nfn f() {}\n", &["4", "0", "0", "4+1"]);
    check("a.rs", "use a; // b\n// c\nfn f() {}\n", &["1", "0", "3"]);
    check(
        "a.py",
        "class C:\n    @property\n    # c\n    def f(self):\n        pass\n",
        &["5", "5", "0", "5+2", "5"],
    );
    check("a.cpp", "template <class T>\nclass A {\n};\n", &["3", "3+1", "0"]);
    check("a.cpp", "/// Doc.\n// c\ntemplate <class T>\nT f();\n", &["1", "0", "4+1", "4+1"]);
    check(
        "a.go",
        "package a\n\nfunc f() {\nouter:\n\tfor {\n\t\tbreak outer\n\t}\nend:\n\tg()\n}\n",
        &["1", "0", "10", "7", "7+4", "6", "0", "9", "9", "0"],
    );
    check("a.js", "outer:\nfor (;;) {\n  break outer;\n}\n", &["4", "4+1", "3", "0"]);
    check("a.c", "int f(void) {\nend:\n  g();\n  return 1;\n}\n", &["5", "3", "3", "4", "0"]);
}

/// Checks the last line of the block on each line.
///
/// `<x` marks a line that is part of the construct at line x.
#[track_caller]
fn check_parts(path: &str, text: &str, parts: &[&str]) {
    let tree = Tree::parse(Language::of(path, text).unwrap(), text, Stop::NEVER).unwrap();
    assert!(!tree.is_broken(text), "{:?}", tree.errors(text));
    let found: Vec<String> = (1..=text.lines().count())
        .map(|line| match tree.block(text, line) {
            Ok(block) => match block.part_of {
                Some(whole) => format!("{}<{}", block.lines.end(), whole.start()),
                None => block.lines.end().to_string(),
            },
            Err(_) => "0".to_owned(),
        })
        .collect();
    assert_eq!(found, parts, "{text}");
}

#[test]
fn a_construct_replaced_by_its_successor_is_a_part() {
    for path in ["a.js", "a.ts"] {
        check_parts(path, "if (a)\n  b();\nc();\n", &["2", "2<1", "3"]);
        check_parts(path, "if (a)\n  b();\nelse\n  c();\nd();\n", &["4", "2", "4", "4<1", "5"]);
        check_parts(path, "const f = () =>\n  g();\nh();\n", &["2", "0", "3"]);
        check_parts(path, "x =\n  g()\nh()\n", &["2", "2<1", "3"]);
        check_parts(path, "f(\n  a,\n  b,\n);\n", &["4", "2", "3", "0"]);
        check_parts(
            path,
            "switch (a) {\n  case 1:\n    b();\n    break;\n  default:\n    c();\n}\n",
            &["7", "4", "3", "4", "6", "6", "0"],
        );
        check_parts(path, "class C {\n  x = 1;\n  y = 2;\n}\n", &["4", "2", "3", "0"]);
    }
    check_parts("a.ts", "interface A {\n  x: number;\n  y: number;\n}\n", &["4", "2", "3", "0"]);
    check_parts("a.c", "int f(void) {\n  while (a)\n    b();\n  c();\n}\n", &["5", "3", "3<2", "4", "0"]);
    check_parts(
        "A.java",
        "class A {\n  void f() {\n    if (a)\n      b();\n    c();\n  }\n}\n",
        &["7", "6", "4", "4<3", "5", "0", "0"],
    );
    check_parts("a.rs", "fn f() {\n    let x =\n        g();\n    y();\n}\n", &["5", "3", "0", "4", "0"]);
    check_parts("a.rs", "fn f<T>()\nwhere\n    T: A,\n    T: B,\n{\n}\n", &["6", "4", "3", "4", "6<1", "0"]);
    check_parts(
        "a.rs",
        "fn f() {\n    match a {\n        1 =>\n            b(),\n        _ => {}\n    }\n}\n",
        &["7", "6", "4", "4<3", "5", "0", "0"],
    );
    check_parts("a.py", "x = \\\n  g()\ny = (\n  \"a\"\n  \"b\"\n)\n", &["2", "2<1", "6", "5", "0", "0"]);
    check_parts("a.sh", "a |\n  b\nif c; then\n  d\nelse\n  e\nfi\n", &["2", "2<1", "7", "4", "6", "6", "0"]);
    check_parts(
        "a.go",
        "package a\n\nfunc f() {\n\tx :=\n\t\tg()\n\tswitch {\n\tcase x:\n\t\th()\n\t}\n}\n",
        &["1", "0", "10", "5", "5<4", "9", "8", "8", "0", "0"],
    );
    check_parts("a.lua", "local x =\n  g()\nh()\n", &["2", "2<1", "3"]);
}

#[test]
fn a_comment_before_a_list_leads_in_its_first_member() {
    check(
        "a.lua",
        "function f()\n  --- @type int\n  local x = 1\n  g(x)\nend\n",
        &["5", "3", "3+2", "4", "0"],
    );
    let text = "def f():\n    # c\n    a()\n    b()\n";
    unclear("a.py", text, 2, "a comment and", &[(2, 2), (2, 3)]);
}

#[test]
fn finds_members_pairs_and_elements() {
    check(
        "a.json",
        "{\n  \"a\": {\n    \"b\": 1\n  },\n  \"c\": [\n    1,\n    2\n  ]\n}\n",
        &["9", "4", "3", "0", "8", "6", "7", "0", "0"],
    );
    check(
        "a.toml",
        "x = 1\n\n[a]\nb = [\n  1,\n]\n# about c\n[c]\nd = 1\n",
        &["1", "0", "6", "6", "5", "0", "7", "9", "9"],
    );
    check("a.yaml", "a:\n  - x: 1\n    y: 2\n  - z\nb: 3\n", &["4", "3", "3", "4", "5"]);
    check(
        "a.md",
        "intro\n\n# A\n\ntext\n\n## B\n\n- one\n- two\n\n# C\n",
        &["1", "0", "10", "0", "5", "0", "10", "0", "9", "10", "0", "12"],
    );
    check(
        "a.css",
        "a {\n  color: red;\n}\n\n@media x {\n  b {\n  }\n}\n",
        &["3", "2", "0", "0", "8", "7", "0", "0"],
    );
    check("a.html", "<ul>\n  <li>\n    a\n  </li>\n</ul>\n", &["5", "4", "3", "0", "0"]);
    check(
        "a.rs",
        "fn f(x: u8) {\n    match x {\n        1 => {\n            a();\n        }\n        _ => b(),\n    }\n}\n",
        &["8", "7", "5", "4", "0", "6", "0", "0"],
    );
}

#[test]
fn an_unclear_line_has_candidates() {
    let text = "function f(a) {\n  if (a) {\n    x();\n  } else {\n    y();\n  }\n}\n";
    unclear("a.js", text, 4, "no construct", &[(4, 6), (2, 6), (1, 7)]);
    unclear("a.js", text, 6, "no construct", &[(2, 6), (1, 7)]);
    unclear("a.js", "a(); b();\n", 1, "holds `b();`", &[(1, 1)]);
    unclear("a.js", "foo(a,\n  b)\n", 2, "holds `)`", &[(2, 2), (1, 2)]);
    unclear("a.js", "f();\n\ng();\n", 2, "blank", &[]);
    unclear("a.js", "// about f\nfunction f() {\n}\n", 1, "a comment and", &[(1, 1), (1, 3)]);
    unclear("a.js", "// a\n// b\n\nf();\n", 1, "several comments", &[(1, 1), (1, 2)]);
    unclear("a.py", "x = \"\"\"\nif a:\n\"\"\"\n", 2, "no construct", &[(1, 3)]);
    unclear("a.rs", "fn f() {\n    let = ;\n}\n", 2, "not parse", &[]);
    unclear("a.rs", "fn f() {}\n", 7, "no such line", &[]);
    unclear("a.rs", "fn f() {}\n", 0, "no such line", &[]);
}

#[test]
fn errors_elsewhere_do_not_matter() {
    let text = "fn a() {\n    let x = = 1;\n}\n\nfn b() {\n    c();\n}\n";
    let tree = Tree::parse(Language::Rust, text, Stop::NEVER).unwrap();
    assert!(tree.is_broken(text));
    assert_eq!(tree.block(text, 5).unwrap().lines, 5..=7);
    assert!(tree.block(text, 1).is_err());
}

#[test]
fn line_ends_and_byte_order_marks_do_not_shift_lines() {
    let text = "\u{feff}def f():\r\n    a()\r\n    b()\r\n\r\ng()\r\n";
    let tree = Tree::parse(Language::Python, text, Stop::NEVER).unwrap();
    assert_eq!(tree.block(text, 1).unwrap().lines, 1..=3);
    assert_eq!(tree.block(text, 2).unwrap().lines, 2..=2);
}

#[test]
fn a_comment_after_a_body_is_not_part_of_it() {
    check("a.py", "def f():\n    a()\n# about g\ndef g():\n    b()\n", &["2", "2", "0", "5", "5"]);
    check("a.py", "def f():\n    a()\n    # last\n", &["3", "2", "3"]);
}
