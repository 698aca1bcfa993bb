//! Placeholder.
#[allow(dead_code, unused_imports, reason = "the command line uses it")]
mod config;
#[allow(dead_code, unused_imports, reason = "the command line uses it")]
mod doctor;
#[allow(dead_code, unused_imports, reason = "the command line uses it")]
mod logging;

fn main() {}
