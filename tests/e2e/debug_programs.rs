//! The programs that real adapters debug, one for each language.
//!
//! Each has a loop with a function, an exception where the language has one, and threads.

pub const PYTHON: &str = "\
def compute(items):
    total = 0
    for item in items:
        total += item
    return total


result = compute([1, 2, 3])
print('result', result)
raise ValueError('no more')
";

pub const C: &str = "\
#include <stdio.h>
#include <stdlib.h>
int add(int a, int b) {
  int sum = a + b;
  return sum;
}
int main(void) {
  int total = 0;
  for (int i = 0; i < 4; i++)
    total = add(total, i);
  printf(\"total %d\\n\", total);
  if (getenv(\"FAIL\")) abort();
  return 3;
}
";

/// A program with a caught exception, and a thread that another one waits for.
pub const CPP: &str = "\
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>
static std::atomic<bool> started;
static void work(int n) {
  while (!started) std::this_thread::yield();
  int twice = n * 2;
  std::printf(\"twice %d\\n\", twice);
}
int main(int count, char **) {
  if (count > 1) {
    std::thread worker(work, 21);
    started = true;
    worker.join();
    return 0;
  }
  try {
    throw std::runtime_error(\"no more\");
  } catch (const std::exception &error) {
    std::printf(\"caught %s\\n\", error.what());
  }
  return 3;
}
";

pub const PYTHON_THREADS: &str = "\
import threading


def work(n):
    twice = n * 2
    print('twice', twice)


worker = threading.Thread(target=work, args=(21,))
worker.start()
worker.join()
";

pub const GO_THREADS: &str = "\
package main

import \"fmt\"

func work(n int, done chan bool) {
	twice := n * 2
	fmt.Println(\"twice\", twice)
	done <- true
}

func main() {
	done := make(chan bool)
	go work(21, done)
	<-done
}
";

pub const JAVASCRIPT: &str = "\
function add(a, b) {
  const sum = a + b;
  return sum;
}
let total = 0;
for (let i = 0; i < 4; i++) {
  total = add(total, i);
}
console.log('total', total);
throw new Error('no more');
";

pub const GO: &str = "\
package main

import \"fmt\"

func add(a, b int) int {
	sum := a + b
	return sum
}

func main() {
	total := 0
	for i := 0; i < 4; i++ {
		total = add(total, i)
	}
	fmt.Println(\"total\", total)
	panic(\"no more\")
}
";

pub const RUST: &str = "\
fn add(a: i32, b: i32) -> i32 {
    let sum = a + b;
    sum
}

fn main() {
    let mut total = 0;
    for i in 0..4 {
        total = add(total, i);
    }
    println!(\"total {total}\");
    std::process::exit(3);
}
";

/// Values of std's types, and an enum with its number in a string's capacity.
pub const RUST_VALUES: &str = "\
#![allow(dead_code)]
use std::collections::HashMap;
#[derive(Debug)]
enum Shape { Empty, Circle(f64), Named { name: String, sides: u32 } }
fn show(names: &[String], ages: &HashMap<String, u32>) -> usize {
    let list = names.to_vec();
    let (some, none): (Option<String>, Option<String>) = (Some(String::new()), None);
    let shapes = vec![Shape::Empty, Shape::Circle(1.5), Shape::Named { name: list[1].clone(), sides: 4 }];
    println!(\"{list:?} {some:?} {none:?} {shapes:?}\");
    list.len() + ages.len()
}
fn main() {
    let names = [\"ann\", \"bob\"].map(String::from);
    println!(\"{}\", show(&names, &HashMap::from([(\"ann\".to_string(), 31)])));
}
";

pub const PANIC: &str = "\
fn odd(n: i32) -> i32 {
    if n % 2 == 1 {
        panic!(\"{} is odd\", n);
    }
    n
}

fn main() {
    odd(3);
}
";

pub const BASH: &str = "\
#!/bin/bash
add() {
  local sum=$(( $1 + $2 ))
  echo \"$sum\" > /dev/null
  total=$sum
}
total=0
for i in 0 1 2 3; do
  add \"$total\" \"$i\"
done
echo \"total $total\"
exit 3
";
