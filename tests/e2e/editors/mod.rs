//! Pilcrow in real editors. Slow.

mod plugins;
mod rename;
