//! The guard: a small process of our own that ends our children when we can no longer.

/// Runs the guard: reads group ids from stdin until it closes, then kills those groups. Blocks.
pub fn guard_main() {
    unimplemented!()
}
