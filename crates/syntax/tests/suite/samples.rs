//! A long text in every language, for properties.

use syntax::Language;

/// A repeated part, with `N` for a number, between a head and a foot.
const SAMPLES: &[(Language, &str, &str, &str)] = &[
    (
        Language::Rust,
        "//! Doc.\nuse std::fmt;\n\n",
        "/// About fN.\n#[test]\nfn fN<'a>(x: &'a str) -> Option<char> {\n    let y = '{';\n    match x {\n        \"}\" => Some(y),\n        _ => {\n            g(N, |z| z + 1);\n            g(0)\n        }\n    }\n}\n\n",
        "",
    ),
    (
        Language::Python,
        "import os\n\n\n",
        "class CN(Base):\n    \"\"\"Doc {\n    more\n    \"\"\"\n\n    @property\n    def f(self, a=(1, 2)):\n        if a:\n            return [x for x in a]\n        else:\n            pass\n        return g(0)\n\n\n",
        "",
    ),
    (
        Language::TypeScript,
        "import { a } from 'b';\n\n",
        "export class CN<T> implements I {\n  private x: Map<string, T[]> = new Map();\n\n  @dec() async f(y?: number): Promise<void> {\n    const s = `a ${y ?? '}'} b`;\n    for (const z of [1, 2]) {\n      await g(z);\n    }\n  }\n}\n\n",
        "",
    ),
    (
        Language::Tsx,
        "",
        "export function CN({ a }: P) {\n  return (\n    <div className=\"x\">\n      {a.map((b) => <B key={b} {...b} />)}\n      don't\n    </div>\n  );\n}\n\n",
        "",
    ),
    (
        Language::JavaScript,
        "",
        "function fN(a) {\n  if (/[}]/.test(a)) {\n    return { b: 1, c: [2] };\n  }\n  return a;\n}\n\n",
        "",
    ),
    (
        Language::Go,
        "package a\n\n",
        "// FN does.\nfunc FN(x map[string]int) error {\n\tif v, ok := x[\"}\"]; ok {\n\t\treturn g(v)\n\t}\n\treturn nil\n}\n\n",
        "",
    ),
    (
        Language::C,
        "#include <a.h>\n\n",
        "static int fN(const char *s)\n{\n\tif (*s == '{') {\n\t\treturn g(\"}\");\n\t}\n\treturn 0;\n}\n\n",
        "",
    ),
    (
        Language::Cpp,
        "namespace a {\n\n",
        "template <class T>\nclass CN : public B<T> {\npublic:\n  explicit CN(int x) : x_(x) {}\n  int f() const { return x_; }\n\nprivate:\n  int x_;\n};\n\n",
        "}\n",
    ),
    (
        Language::Java,
        "package a;\n\n",
        "class CN extends B {\n  @Override\n  public int f(int x) {\n    if (x > 0) {\n      return x;\n    }\n    return new int[] {1}[0];\n  }\n}\n\n",
        "",
    ),
    (
        Language::Json,
        "{\n",
        "  \"N\": {\n    \"a\": [1, 2, { \"b\": null }],\n    \"c\": \"}\"\n  },\n",
        "  \"end\": true\n}\n",
    ),
    (Language::JsonC, "{\n", "  // about N\n  \"N\": {\n    \"a\": [1, 2,],\n  },\n", "}\n"),
    (Language::Toml, "a = 1\n\n", "[tN]\nb = [\n  1,\n  { c = \"]\" },\n]\nd = '''\n[x\n'''\n\n", ""),
    (Language::Yaml, "a: 1\n", "kN:\n  - x: 1\n    y: [1, 2]\n  - |\n    text {\n", ""),
    (
        Language::Bash,
        "#!/bin/bash\n\n",
        "fN() {\n  if [ -n \"$1\" ]; then\n    echo \"${1%\\}}\" | grep x\n  fi\n  for a in 1 2; do\n    b \"$a\"\n  done\n}\n\n",
        "",
    ),
    (
        Language::Lua,
        "",
        "local function fN(a)\n  if a then\n    return { b = 1, [2] = \"}\" }\n  end\n  for i = 1, 2 do\n    g(i)\n  end\nend\n\n",
        "",
    ),
    (
        Language::Markdown,
        "# Title\n\n",
        "## Part N\n\nText *here* and `there`.\n\n- one\n- two\n\n```rust\nfn f() {\n```\n\n",
        "",
    ),
    (
        Language::Html,
        "<!doctype html>\n<html>\n<body>\n",
        "<div class=\"N\">\n  <p>text &amp; <b>more</b></p>\n  <ul>\n    <li>a</li>\n  </ul>\n</div>\n",
        "</body>\n</html>\n",
    ),
    (
        Language::Css,
        "",
        ".cN > a:hover {\n  color: red;\n  background: url(\"}\");\n}\n\n@media (min-width: 1px) {\n  b {\n    margin: 0;\n  }\n}\n\n",
        "",
    ),
];

/// The sample of a language with its part repeated `count` times.
pub fn sample(language: Language, count: usize) -> String {
    let (_, head, part, foot) = SAMPLES.iter().find(|(of, ..)| *of == language).unwrap();
    let parts: String = (0..count).map(|at| part.replace('N', &at.to_string())).collect();
    format!("{head}{parts}{foot}")
}
