//! Every language server that can be run here, asked the same of a project of the same shape: a thing
//! defined in one file and used in another, a class with a method, an error. Slow: real servers.
//!
//! A file for each family of languages; `lab` asks. What each server passed is written where
//! `PILCROW_LANGUAGE_RESULTS` says, for the table in `docs/guide/language-servers.md`.

mod data;
mod frameworks;
pub(crate) mod lab;
mod monorepo;
mod new_files;
mod python;
mod systems;
mod web;
