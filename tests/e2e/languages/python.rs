//! Python: basedpyright, pyright, ty, ruff, pylsp, jedi, Pyrefly, Zuban.

use super::lab::{Case, check};

const FILES: &[(&str, &str)] = &[
    ("pyproject.toml", "[project]\nname = \"shapes\"\nversion = \"0\"\n"),
    (
        "shapes.py",
        "class Shape:\n    def area(self) -> int:\n        raise NotImplementedError\n\n\n\
         class Square(Shape):\n    def __init__(self, side: int) -> None:\n        self.side = side\n\n\
         \x20   def area(self) -> int:\n        return self.side * self.side\n\n\n\
         def total(shapes: list[Shape]) -> int:\n    \"\"\"The sum of all areas.\"\"\"\n    return sum(shape.area() for shape in shapes)\n",
    ),
    ("main.py", "from shapes import Square, total\n\nprint(total([Square(2)]))\n"),
    ("broken.py", "from shapes import total\n\nprint(total(nothing))\n"),
];

/// Overriding methods, which count as implementations.
const OVERRIDES: Option<(super::lab::At, &[(&str, u64)])> =
    Some((("shapes.py", 2, "area"), &[("shapes.py", 2), ("shapes.py", 10)]));

fn types(server: &'static str, programs: &'static [&'static str]) -> Case {
    Case {
        server,
        programs,
        version: None,
        files: FILES,
        used: ("main.py", 3, "total"),
        symbols: Some(("shapes.py", &["Square", "Square.area", "total"])),
        definition: Some(("shapes.py", "def total(shapes")),
        references: Some(&[
            ("main.py", "print(total([Square(2)]))"),
            ("broken.py", "print(total(nothing))"),
            ("shapes.py", "def total(shapes"),
        ]),
        implementation: None,
        hover: Some("The sum of all areas."),
        mistake: Some(("broken.py", "nothing", "print(total(nothing))", "print(total([]))")),
        rename: Some((
            "whole",
            &[
                ("main.py", "from shapes import Square, whole\n\nprint(whole([Square(2)]))"),
                ("broken.py", "from shapes import whole"),
                ("shapes.py", "def whole(shapes"),
            ],
        )),
        rename_file: Some((
            "shapes.py",
            "figures.py",
            &[
                ("main.py", "from figures import Square"),
                ("broken.py", "from figures import"),
                ("figures.py", "class Square"),
            ],
        )),
        action: None,
        format: None,
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn basedpyright_features_work() {
    let case = types("basedpyright", &["basedpyright-langserver"]);
    let action = Some(("broken.py", 3, "pyright: ignore"));
    check(&Case { implementation: OVERRIDES, action, ..case });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn pyright_features_work() {
    check(&Case { rename_file: None, ..types("pyright", &["pyright-langserver"]) });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn ty_features_work() {
    let case = types("ty", &["ty"]);
    let action = Some(("broken.py", 3, "unresolved-reference"));
    check(&Case { implementation: OVERRIDES, rename_file: None, action, ..case });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn ruff_features_work() {
    const FILES: &[(&str, &str)] = &[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        ("main.py", "import os\n\nprint( 1 )\n"),
    ];
    check(&Case {
        server: "ruff",
        programs: &["ruff"],
        version: None,
        files: FILES,
        used: ("main.py", 3, "print"),
        symbols: None,
        definition: None,
        references: None,
        implementation: None,
        hover: None,
        mistake: Some(("main.py", "F401", "import os", "import os  # noqa: F401")),
        rename: None,
        rename_file: None,
        action: Some(("main.py", 1, "Remove unused import")),
        format: Some(("main.py", "print(1)")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn pylsp_features_work() {
    const UGLY: &[(&str, &str)] = &[FILES[0], FILES[1], FILES[2], FILES[3], ("ugly.py", "a   =  1\n")];
    let case = types("pylsp", &["pylsp"]);
    check(&Case { files: UGLY, rename_file: None, format: Some(("ugly.py", "a = 1\n")), ..case });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn jedi_features_work() {
    let case = types("jedi-language-server", &["jedi-language-server"]);
    let action = Some(("main.py", 3, "Extract expression into variable"));
    check(&Case { mistake: None, rename_file: None, action, ..case });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn pyrefly_features_work() {
    let case = types("pyrefly", &["pyrefly"]);
    check(&Case {
        implementation: Some((("shapes.py", 2, "area"), &[("shapes.py", 10)])),
        mistake: None,
        action: Some(("broken.py", 3, "Extract into variable")),
        ..case
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn zuban_features_work() {
    let case = types("zuban", &["zuban"]);
    check(&Case { rename_file: None, action: Some(("broken.py", 3, "type: ignore")), ..case });
}
