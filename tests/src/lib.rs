//! The end-to-end tests' own helpers.
