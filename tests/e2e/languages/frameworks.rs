//! Tailwind CSS.

use super::lab::{Case, check};

#[test]
fn tailwindcss() {
    check(
        "tailwindcss",
        &Case {
            server: "tailwindcss",
            programs: &["tailwindcss-language-server"],
            version: None,
            files: &[
                ("package.json", "{}\n"),
                ("tailwind.config.js", "module.exports = { content: ['./*.html'] };\n"),
                ("main.html", "<p class=\"underline\">a</p>\n"),
                ("broken.html", "<p class=\"p-1 p-2\">a</p>\n"),
            ],
            used: ("main.html", 1, "underline"),
            symbols: None,
            definition: None,
            references: None,
            hover: Some("text-decoration"),
            mistake: Some((
                "broken.html",
                "applies the same CSS properties",
                "<p class=\"p-1 p-2\">a</p>",
                "<p class=\"p-1\">a</p>",
            )),
            rename: None,
            rename_file: None,
            action: Some(("broken.html", 1, "p-2")),
            format: None,
        },
    );
}
