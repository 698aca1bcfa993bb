//! `test` with real runners on less simple projects. Slow.
//!
//! The projects are nested, have file names with a space, parameterized cases, titles with quotes,
//! and equal names.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Batch, Sandbox};

/// Asserts that the answer to `test` contains all of these.
#[track_caller]
fn test(batch: &mut Batch, mut what: Value, parts: &[&str]) {
    what["action"] = json!("test");
    what["timeout"] = json!(200);
    let said = batch.call("debug", &what).ok();
    for part in parts {
        assert!(said.contains(part), "{part} is missing in the answer to {what}:\n{said}");
    }
    batch.call("debug", &json!({"action": "terminate"}));
}

#[track_caller]
fn over(mut batch: Batch, sandbox: &Sandbox) {
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}

fn tools() -> PathBuf {
    PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env"))
}

const PYTEST: &str = "\
import pytest
from cart import total

CASES = [([1], 1), ([1, 2], 4), ([], 0)]


class TestCart:
    def test_other(self):
        text = '''
if so
'''
        assert text

    class TestTotal:
        @pytest.mark.parametrize('items, want', CASES, ids=['one', \"it's\", 'a-1.5'])
        def test_total(self, items, want):
            got = total(items)
            assert got == want
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn pytest_of_a_nested_project_is_run() {
    let settings = "[tool.pytest.ini_options]\npythonpath = ['src']\n";
    let sandbox = Sandbox::with(&[
        ("packages/my cart/pyproject.toml", settings),
        ("packages/my cart/src/cart/__init__.py", "def total(items):\n    return sum(items)\n"),
        ("packages/my cart/tests/test_cart.py", PYTEST),
        ("test_cart.py", "def test_total(): pass\n"),
    ]);
    let lib = tools().join("lib/python-tests/lib");
    let version =
        std::fs::read_dir(&lib).expect("pytest is set up").flatten().next().expect("a version").path();
    let env = json!({"PYTHONPATH": version.join("site-packages")});
    let mut batch = Batch::start(&sandbox);
    let fails = ["fails here", "test_cart.py:18", "got = 3 : int", "want = 4 : int"];
    let name = "TestTotal::test_total";
    test(&mut batch, json!({"name": name, "env": env}), &fails);
    let file = "packages/my cart/tests/test_cart.py";
    test(&mut batch, json!({"file": file, "line": 17, "env": env}), &fails);
    let name = format!("{file}::TestCart::TestTotal::test_total[it's]");
    test(&mut batch, json!({"name": name, "env": env}), &fails);
    let name = format!("{file}::TestCart::TestTotal::test_total[a-1.5]");
    test(&mut batch, json!({"name": name, "env": env}), &["test test_total[a-1.5] (pytest) passed"]);
    let fails = json!({"action": "test", "file": file, "line": 17, "env": env, "timeout": 200});
    let said = batch.call("debug", &fails).ok();
    assert!(!said.contains("@py_") && said.matches("assert 3 == 4").count() == 1, "{said}");
    let several = batch.call("debug", &json!({"action": "test", "name": "test_total"})).fails("ambiguous");
    assert!(
        several.contains("test_cart.py:1") && several.contains("my cart/tests/test_cart.py:16"),
        "{several}"
    );
    over(batch, &sandbox);
}

const UNITTEST: &str = "\
import unittest
from helper import double


class Doubles:
    def test_double(self):
        got = double(self.value)
        self.assertEqual(got, 4)


class TestTwo(Doubles, unittest.TestCase):
    value = 2


class TestThree(Doubles, unittest.TestCase):
    value = 3
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn unittest_runs_inherited_tests_beside_sibling_modules() {
    let sandbox = Sandbox::with(&[
        ("my tests/test_double.py", UNITTEST),
        ("my tests/helper.py", "def double(n):\n    return 2 * n\n"),
    ]);
    let mut batch = Batch::start(&sandbox);
    test(&mut batch, json!({"name": "TestThree.test_double"}), &["test_double.py:8", "got = 6 : int"]);
    test(&mut batch, json!({"name": "TestTwo.test_double"}), &["test test_double (unittest) passed"]);
    over(batch, &sandbox);
}

const SUBTESTS: &str = "\
import doctest
import unittest


def half(n):
    \"\"\"
    >>> half(2)
    7
    \"\"\"
    return n // 2


class Halves:
    def test_zero(self):
        self.assertEqual(half(0), self.zero)


class TestHalf(Halves, unittest.TestCase):
    zero = 0

    def test_each(self):
        for n in [2, 3, 4, 6]:
            with self.subTest(n=n):
                got = half(n)
                self.assertEqual(got * 2, n)

    def test_one(self):
        print('Ran 0 tests in all')
        self.assertEqual(half(2), 1)


class TestOther(Halves, unittest.TestCase):
    zero = 1


def load_tests(loader, tests, ignore):
    import test_half
    tests.addTests(doctest.DocTestSuite(test_half))
    return tests
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn unittest_subtests_doctests_and_classes_are_run() {
    let sandbox = Sandbox::with(&[("tests/test_half.py", SUBTESTS)]);
    let mut batch = Batch::start(&sandbox);
    let each = ["fails here", "test_half.py:25", "n = 3 : int", "got = 1 : int"];
    test(&mut batch, json!({"name": "test_each"}), &each);
    test(&mut batch, json!({"name": "test_one"}), &["test test_one (unittest) passed"]);
    let zero = json!({"action": "test", "file": "tests/test_half.py", "name": "test_zero"});
    let several = batch.call("debug", &zero).fails("ambiguous");
    assert!(several.contains("TestHalf.test_zero") && several.contains("TestOther.test_zero"), "{several}");
    let line = json!({"action": "test", "file": "tests/test_half.py", "line": 15});
    assert_eq!(batch.call("debug", &line).fails("ambiguous"), several);
    test(&mut batch, json!({"name": "TestHalf.test_zero"}), &["test test_zero (unittest) passed"]);
    test(&mut batch, json!({"name": "TestOther.test_zero"}), &["fails here", "test_half.py:15"]);
    let none = json!({"file": "tests/test_half.py", "name": "TestOther.test_none"});
    test(&mut batch, none, &["unittest found no test test_none"]);
    over(batch, &sandbox);
}

fn rust(want: i32) -> String {
    format!(
        "pub fn add(a: i32, b: i32) -> i32 {{\n    a + b\n}}\n\n#[cfg(test)]\nmod tests {{\n    use super::*;\n\n    \
         #[test]\n    /// It adds.\n    fn adds() {{\n        let (got, want) = (add(1, 2), {want});\n        \
         assert_eq!(got, want);\n    }}\n}}\n"
    )
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn cargo_tests_of_one_name_are_distinguished() {
    let package = |name: &str, more: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{more}")
    };
    let sandbox = Sandbox::with(&[
        ("Cargo.toml", "[workspace]\nresolver = \"2\"\nmembers = [\"my crate\", \"macros\"]\n"),
        ("my crate/Cargo.toml", &package("mine", "")),
        ("my crate/src/lib.rs", "pub mod a;\npub mod b;\n"),
        ("my crate/src/a.rs", &rust(3)),
        ("my crate/src/b/mod.rs", &rust(4)),
        ("macros/Cargo.toml", &package("macros", "[lib]\nproc-macro = true\n")),
        ("macros/src/lib.rs", "#[test]\nfn odd() {\n    let n = 3;\n    assert!(n % 2 == 0);\n}\n"),
    ]);
    let mut batch = Batch::start(&sandbox);
    let fails = ["fails here", "my crate/src/b/mod.rs:13", "got = 3", "want = 4"];
    test(&mut batch, json!({"file": "my crate/src/b/mod.rs", "line": 12}), &fails);
    test(&mut batch, json!({"name": "b::tests::adds"}), &fails);
    test(&mut batch, json!({"name": "a::tests::adds"}), &["test adds (cargo) passed"]);
    test(&mut batch, json!({"name": "odd"}), &["fails here", "macros/src/lib.rs:4", "n = 3"]);
    over(batch, &sandbox);
}

const GO: &str = "\
package deep

import \"testing\"

func TestTable(t *testing.T) {
	for _, it := range []struct{ name string; n int }{{\"one\", 1}, {\"two & two\", 4}} {
		t.Run(it.name, func(t *testing.T) {
			half := it.n / 2
			if half*2 != it.n {
				t.Errorf(\"%d is odd\", it.n)
			}
		})
	}
}
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn go_subtests_in_a_subpackage_stop_where_they_fail() {
    let files = [("my mod/go.mod", "module example.org/m\n\ngo 1.19\n"), ("my mod/deep/deep_test.go", GO)];
    let sandbox = Sandbox::with(&files);
    let mut batch = Batch::start(&sandbox);
    let fails = ["fails here", "deep_test.go:10", "it.n = 1"];
    test(&mut batch, json!({"name": "TestTable"}), &fails);
    test(&mut batch, json!({"name": "TestTable/one"}), &fails);
    test(&mut batch, json!({"name": "TestTable/two & two"}), &["passed"]);
    over(batch, &sandbox);
}

const NODE: &str = "\
import { describe, it } from 'node:test';
import assert from 'node:assert';

describe('the cart', () => {
  it('isn\\'t \"empty\" (1/2)', () => {
    const got = 1;
    assert.strictEqual(got, 2);
  });
  it('isn\\'t', () => {});
});
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn node_test_titles_with_quotes_are_run() {
    let sandbox = Sandbox::with(&[("my tests/cart.test.mjs", NODE)]);
    let mut batch = Batch::start(&sandbox);
    let fails = ["fails here", "my tests/cart.test.mjs:7", "got = 1 : number"];
    test(&mut batch, json!({"name": "isn't \"empty\" (1/2)"}), &fails);
    test(&mut batch, json!({"name": "the cart > isn't \"empty\" (1/2)"}), &fails);
    test(&mut batch, json!({"file": "my tests/cart.test.mjs", "line": 6}), &fails);
    test(&mut batch, json!({"name": "isn't"}), &["test isn't (node) passed"]);
    let none = json!({"file": "my tests/cart.test.mjs", "name": "is it"});
    test(&mut batch, none, &["node found no test is it"]);
    over(batch, &sandbox);
}

const ALIKE: &str = "\
import test, { describe, it } from 'node:test';
import assert from 'node:assert';

describe('one', () => {
  it('adds', () => { const one = 1; assert.strictEqual(one, 2); });
});
describe('two', () => {
  it('adds', () => { const two = 2; assert.strictEqual(two, 3); });
});
test('adds', () => {});
test('outer', async (t) => {
  await t.test('first', () => { assert.strictEqual(1, 2); });
  await t.test('GET /a/b', () => {
    const inner = 1;
    assert.strictEqual(inner, 2);
  });
  await t.test('last', () => {});
});
for (const n of [1, 2, 3]) {
  test(`of ${n}`, () => assert.strictEqual(n, 3));
  test(`${n}`, () => {});
}
test('judged', (t) => {
  t.assert.throws(() => { throw new TypeError('no'); }, (error) => {
    assert.strictEqual(error.message, 'yes');
    return true;
  });
});
test('caught', () => {
  const chosen = [];
  try { [1].map(() => { throw chosen; }); } catch {}
  assert.throws(() => { throw chosen; });
  console.log('tests 0');
});
";

/// Runs nested tests, with equal titles and with distinct ones.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn node_runs_nested_tests_and_equal_titles() {
    let file = "alike.test.mjs";
    let sandbox = Sandbox::with(&[(file, ALIKE)]);
    let mut batch = Batch::start(&sandbox);
    let named = |name: &str| json!({"file": file, "name": name});
    test(&mut batch, named("two adds"), &["fails here", "alike.test.mjs:8", "two = 2 : number"]);
    // Before Node 22.1 the other tests of that title run too.
    test(&mut batch, json!({"file": file, "line": 10}), &["test adds (node)"]);
    let inner = ["fails here", "alike.test.mjs:15", "inner = 1 : number"];
    test(&mut batch, named("GET /a/b"), &inner);
    test(&mut batch, json!({"file": file, "line": 14}), &inner);
    test(&mut batch, named("outer > last"), &["test last (node)"]);
    test(&mut batch, named("of 3"), &["test of 3 (node)"]);
    test(&mut batch, named("of 2"), &["test of 2 (node) fails here", "n = 2 : number"]);
    test(&mut batch, named("x"), &["node found no test x"]);
    test(&mut batch, named("judged"), &["fails here", "alike.test.mjs:2"]);
    over(batch, &sandbox);
}

/// Parameterized cases, and two of one title in groups.
///
/// `import` is the line that vitest needs.
fn cases(import: &str) -> String {
    format!(
        "{import}\ntest.each([\n  [1, 1, 2],\n  [1, 2, 4],\n])('add(%i, %i) -> %i', (a, b, want) => {{\n  \
         const got = a + b;\n  expect(got).toBe(want);\n}});\n\ndescribe('first', () => {{\n  test('adds', () => {{\n    \
         expect(1).toBe(2);\n  }});\n}});\n\ndescribe('second \"one\"', () => {{\n  test(\n    'adds',\n    () => {{\n      \
         const more = 3;\n      expect(more).toBe(4);\n    }},\n  );\n}});\n\ntest('passes', () => {{}});\n\
         test('never passes', () => expect(0).toBe(1));\n"
    )
}

fn cases_of(modules: &str, import: &str, file: &str, runner: &str) {
    let sandbox = Sandbox::with(&[(file, &cases(import)), ("package.json", "{\"type\": \"commonjs\"}")]);
    let modules = tools().join("lib").join(modules).canonicalize().expect("the modules are set up");
    std::os::unix::fs::symlink(modules, sandbox.project().join("node_modules")).expect("a link");
    let mut batch = Batch::start(&sandbox);
    let fails = ["fails here", &format!("{file}:7"), "got = 3 : number", "want = 4 : number"];
    test(&mut batch, json!({"file": file, "line": 6}), &fails);
    test(&mut batch, json!({"name": "add(1, 2) -> 4"}), &fails);
    let first = format!("test add(1, 1) -> 2 ({runner}) passed");
    test(&mut batch, json!({"name": "add(1, 1) -> 2"}), &[&first]);
    test(&mut batch, json!({"name": "passes"}), &[&format!("test passes ({runner}) passed")]);
    let second = ["fails here", &format!("{file}:21"), "more = 3 : number"];
    test(&mut batch, json!({"file": file, "line": 20}), &second);
    test(&mut batch, json!({"name": "second \"one\" adds"}), &second);
    let several = batch.call("debug", &json!({"action": "test", "name": "adds"})).fails("ambiguous");
    assert!(several.contains(&format!("{file}:11, {file}:17")), "{runner}: {several}");
    over(batch, &sandbox);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn vitest_cases_and_groups_are_run_by_name() {
    cases_of("zod", "import { describe, expect, test } from 'vitest';", "my tests/add.test.ts", "vitest");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn jest_cases_and_groups_are_run_by_name() {
    cases_of("jest", "", "my tests/add.test.js", "jest");
}

const C: &str = "\
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  FILE *file = fopen(\"here.txt\", \"r\");
  int found = file != NULL;
  int chosen = atoi(getenv(\"CHOSEN\") ? getenv(\"CHOSEN\") : \"0\");
  assert(found + chosen == 0);
  return 0;
}
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn ctest_gets_its_working_directory_and_variables() {
    let cmake = "cmake_minimum_required(VERSION 3.20)\nproject(tested C)\nset(CMAKE_BUILD_TYPE Debug)\n\
        enable_testing()\nadd_executable(t t.c)\nadd_test(NAME \"it's chosen\" COMMAND t WORKING_DIRECTORY \
        \"${CMAKE_SOURCE_DIR}/my data\")\nset_tests_properties(\"it's chosen\" PROPERTIES ENVIRONMENT \"CHOSEN=7;X=y z\")\n";
    let sandbox = Sandbox::with(&[("t.c", C), ("my data/here.txt", "x"), ("CMakeLists.txt", cmake)]);
    for words in [&["-S", ".", "-B", "build"][..], &["--build", "build"]] {
        let built =
            Command::new("cmake").current_dir(sandbox.project()).args(words).stdout(Stdio::null()).status();
        assert!(built.expect("cmake starts").success());
    }
    let mut batch = Batch::start(&sandbox);
    test(&mut batch, json!({"name": "it's chosen"}), &["t.c:8", "found = 1", "chosen = 7"]);
    over(batch, &sandbox);
}
