//! Rust, C, C++, Go, Fortran.

use super::lab::{Case, check, check_with};

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn rust_analyzer_features_work() {
    check(&Case {
        server: "rust-analyzer",
        programs: &[],
        version: Some(&["/usr/bin/rust-analyzer", "--version"]),
        files: &[
            ("Cargo.toml", "[package]\nname = \"shapes\"\nversion = \"0.0.0\"\nedition = \"2021\"\n"),
            (
                "src/lib.rs",
                "pub mod broken;\npub mod shapes;\n\npub fn all() -> u32 {\n    shapes::total(&[&shapes::Square { side: 2 }])\n}\n",
            ),
            (
                "src/shapes.rs",
                "pub trait Shape {\n    fn area(&self) -> u32;\n}\n\npub struct Square {\n    pub side: u32,\n}\n\nimpl Shape for Square {\n    fn area(&self) -> u32 {\n        self.side * self.side\n    }\n}\n\n/// The sum of all areas.\npub fn total(shapes: &[&dyn Shape]) -> u32 {\n    shapes.iter().map(|shape| shape.area()).sum()\n}\n",
            ),
            ("src/broken.rs", "use crate::shapes::total;\n\npub fn none() -> u32 {\n    total(7)\n}\n"),
            ("src/ugly.rs", "pub fn  x( ) {}\n"),
        ],
        used: ("src/lib.rs", 5, "total"),
        symbols: Some(("src/shapes.rs", &["Square", "Square.area", "total"])),
        definition: Some(("src/shapes.rs", "pub fn total(")),
        references: Some(&[
            ("src/lib.rs", "shapes::total("),
            ("src/broken.rs", "total(7)"),
            ("src/shapes.rs", "pub fn total("),
        ]),
        implementation: Some((("src/shapes.rs", 2, "area"), &[("src/shapes.rs", 10)])),
        hover: Some("The sum of all areas."),
        mistake: Some(("src/broken.rs", "E0308", "    total(7)", "    total(&[])")),
        rename: Some((
            "whole",
            &[
                ("src/lib.rs", "shapes::whole("),
                ("src/broken.rs", "use crate::shapes::whole"),
                ("src/shapes.rs", "pub fn whole("),
            ],
        )),
        rename_file: Some((
            "src/shapes.rs",
            "src/figures.rs",
            &[
                ("src/lib.rs", "pub mod figures;"),
                ("src/lib.rs", "figures::whole"),
                ("src/broken.rs", "use crate::figures::whole"),
                ("src/figures.rs", "pub struct Square"),
            ],
        )),
        action: Some(("src/shapes.rs", 11, "Extract")),
        format: Some(("src/ugly.rs", "pub fn x() {}")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn clangd_c_features_work() {
    check_with(
        "C",
        &Case {
            server: "clangd",
            programs: &["clangd"],
            version: None,
            files: &[
                ("compile_flags.txt", "-std=c11\n-I.\n"),
                (
                    "shapes.h",
                    "#pragma once\n\nstruct square {\n  int side;\n};\n\n/// The sum of all areas.\nint total(const struct square *squares, int count);\n",
                ),
                (
                    "shapes.c",
                    "#include \"shapes.h\"\n\nint total(const struct square *squares, int count) {\n  int sum = 0;\n  for (int i = 0; i < count; i++)\n    sum += squares[i].side * squares[i].side;\n  return sum;\n}\n",
                ),
                (
                    "main.c",
                    "#include \"shapes.h\"\n\nint main(void) {\n  struct square two = {2};\n  return total(&two, 1);\n}\n",
                ),
                ("broken.c", "#include \"shapes.h\"\n\nint none(void) {\n  return total(nothing, 0);\n}\n"),
                ("ugly.c", "int   x ( void ) ;\n"),
                ("fixable.c", "int f(int a) {\n  if (a = 1)\n    return 2;\n  return 3;\n}\n"),
            ],
            used: ("main.c", 5, "total"),
            symbols: Some(("shapes.h", &["square", "square.side", "total"])),
            definition: Some(("shapes", "int total(const struct square *squares, int count)")),
            references: Some(&[
                ("main.c", "return total(&two, 1);"),
                ("broken.c", "total(nothing, 0)"),
                ("shapes.c", "int total("),
            ]),
            implementation: None,
            hover: Some("The sum of all areas."),
            mistake: Some((
                "broken.c",
                "undeclared identifier 'nothing'",
                "  return total(nothing, 0);",
                "  return total(0, 0);",
            )),
            rename: Some((
                "whole",
                &[
                    ("main.c", "return whole(&two, 1);"),
                    ("broken.c", "whole(0, 0)"),
                    ("shapes.c", "int whole("),
                    ("shapes.h", "int whole("),
                ],
            )),
            rename_file: None,
            action: Some(("fixable.c", 2, "equality comparison")),
            format: Some(("ugly.c", "int x(void);")),
        },
    );
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn clangd_cpp_features_work() {
    check_with(
        "C++",
        &Case {
            server: "clangd",
            programs: &["clangd"],
            version: None,
            files: &[
                ("compile_flags.txt", "-std=c++17\n-I.\n"),
                (
                    "shapes.hpp",
                    "#pragma once\n\nclass Shape {\npublic:\n  virtual int area() const = 0;\n};\n\nclass Square : public Shape {\npublic:\n  explicit Square(int side) : side(side) {}\n  int area() const override;\n\nprivate:\n  int side;\n};\n\n/// The sum of all areas.\nint total(const Shape *const *shapes, int count);\n",
                ),
                (
                    "shapes.cpp",
                    "#include \"shapes.hpp\"\n\nint Square::area() const { return side * side; }\n\nint total(const Shape *const *shapes, int count) {\n  int sum = 0;\n  for (int i = 0; i < count; i++)\n    sum += shapes[i]->area();\n  return sum;\n}\n",
                ),
                (
                    "main.cpp",
                    "#include \"shapes.hpp\"\n\nint main() {\n  const Square two(2);\n  const Shape *all = &two;\n  return total(&all, 1);\n}\n",
                ),
                ("broken.cpp", "#include \"shapes.hpp\"\n\nint none() { return total(nothing, 0); }\n"),
                ("ugly.cpp", "int   x ( ) ;\n"),
                ("fixable.cpp", "int f(int a) {\n  if (a = 1)\n    return 2;\n  return 3;\n}\n"),
            ],
            used: ("main.cpp", 6, "total"),
            symbols: Some(("shapes.hpp", &["Shape.area", "Square", "Square.area", "total"])),
            definition: Some(("shapes.hpp", "int total(const Shape *const *shapes, int count);")),
            references: Some(&[
                ("main.cpp", "return total(&all, 1);"),
                ("broken.cpp", "total(nothing, 0)"),
                ("shapes.cpp", "int total("),
            ]),
            implementation: Some((("shapes.hpp", 5, "area"), &[("shapes.cpp", 3)])),
            hover: Some("The sum of all areas."),
            mistake: Some((
                "broken.cpp",
                "undeclared identifier 'nothing'",
                "int none() { return total(nothing, 0); }",
                "int none() { return total(nullptr, 0); }",
            )),
            rename: Some((
                "whole",
                &[
                    ("main.cpp", "return whole(&all, 1);"),
                    ("broken.cpp", "whole(nullptr, 0)"),
                    ("shapes.cpp", "int whole("),
                    ("shapes.hpp", "int whole("),
                ],
            )),
            rename_file: None,
            action: Some(("fixable.cpp", 2, "equality comparison")),
            format: Some(("ugly.cpp", "int x();")),
        },
    );
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn gopls_features_work() {
    check(&Case {
        server: "gopls",
        programs: &[],
        version: Some(&["dpkg-query", "-W", "-f", "${Version}", "gopls"]),
        files: &[
            ("go.mod", "module example.org/shapes\n\ngo 1.19\n"),
            (
                "shapes/shapes.go",
                "package shapes\n\ntype Shape interface {\n\tArea() int\n}\n\ntype Square struct {\n\tSide int\n}\n\nfunc (s Square) Area() int {\n\treturn s.Side * s.Side\n}\n\n// Total is the sum of all areas.\nfunc Total(shapes []Shape) int {\n\tsum := 0\n\tfor _, shape := range shapes {\n\t\tsum += shape.Area()\n\t}\n\treturn sum\n}\n",
            ),
            (
                "main.go",
                "package main\n\nimport \"example.org/shapes/shapes\"\n\nfunc main() {\n\tprintln(shapes.Total([]shapes.Shape{shapes.Square{Side: 2}}))\n}\n",
            ),
            (
                "broken/broken.go",
                "package broken\n\nimport \"example.org/shapes/shapes\"\n\nfunc None() int {\n\treturn shapes.Total(nothing)\n}\n",
            ),
            ("ugly.go", "package main\n\nvar   x  =  1\n"),
            ("unused/unused.go", "package unused\n\nimport \"fmt\"\n"),
        ],
        used: ("main.go", 6, "Total"),
        symbols: Some(("shapes/shapes.go", &["Square", "Total"])),
        definition: Some(("shapes/shapes.go", "func Total(")),
        references: Some(&[
            ("main.go", "println(shapes.Total("),
            ("broken/broken.go", "shapes.Total(nothing)"),
            ("shapes/shapes.go", "func Total("),
        ]),
        implementation: Some((("shapes/shapes.go", 4, "Area"), &[("shapes/shapes.go", 11)])),
        hover: Some("sum of all areas"),
        mistake: Some((
            "broken/broken.go",
            "nothing",
            "\treturn shapes.Total(nothing)",
            "\treturn shapes.Total(nil)",
        )),
        rename: Some((
            "Whole",
            &[
                ("main.go", "shapes.Whole("),
                ("broken/broken.go", "shapes.Whole(nil)"),
                ("shapes/shapes.go", "func Whole("),
            ],
        )),
        rename_file: None,
        action: Some(("unused/unused.go", 3, "Organize Imports")),
        format: Some(("ugly.go", "var x = 1")),
    });
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn fortran_features_work() {
    check(&Case {
        server: "fortls",
        programs: &["fortls"],
        version: None,
        files: &[
            (".fortls", "{}\n"),
            (
                "shapes.f90",
                "module shapes\n  implicit none\ncontains\n  !> The area of a square.\n  function area(side) result(res)\n\
                     \x20   integer, intent(in) :: side\n    integer :: res\n    res = side * side\n  end function area\nend module shapes\n",
            ),
            (
                "main.f90",
                "program main\n  use shapes, only: area\n  implicit none\n  print *, area(2)\nend program main\n",
            ),
            (
                "broken.f90",
                "program broken\n  implicit none\n  integer :: one\n  real :: one\n  print *, one\nend program broken\n",
            ),
        ],
        used: ("main.f90", 4, "area"),
        symbols: Some(("shapes.f90", &["shapes", "shapes.area"])),
        definition: Some(("shapes.f90", "function area(side)")),
        references: Some(&[
            ("main.f90", "  print *, area(2)"),
            ("main.f90", "  use shapes, only: area"),
            ("shapes.f90", "function area(side)"),
        ]),
        implementation: None,
        hover: Some("The area of a square."),
        mistake: Some(("broken.f90", "declared twice", "  real :: one", "  real :: two")),
        rename: Some((
            "surface",
            &[
                ("main.f90", "  use shapes, only: surface"),
                ("main.f90", "  print *, surface(2)"),
                ("shapes.f90", "function surface(side)"),
            ],
        )),
        rename_file: None,
        action: None,
        format: None,
    });
}
