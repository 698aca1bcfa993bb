//! Every language server that runs here, with the same requests. Slow.
//!
//! Each project has the same shape: a symbol defined in one file and used in another, a class with
//! a method, an error. A file covers each family of languages; `lab` sends the requests.
//! `PILCROW_LANGUAGE_RESULTS` names a file for the results, for the table in
//! `docs/reference/language-servers.md`.

mod data;
mod frameworks;
pub(crate) mod lab;
mod monorepo;
mod new_files;
mod python;
mod systems;
mod web;
