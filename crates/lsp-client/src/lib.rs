//! The client of language servers.
mod definition;
mod definitions;
mod discovery;
