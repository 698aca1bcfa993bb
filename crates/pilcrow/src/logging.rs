//! temporary
pub fn start(_: &workspace::StateDir, _: &str) -> anyhow::Result<()> {
    Ok(())
}
pub fn newest(_: &workspace::StateDir, _: usize, _: Option<&str>) -> anyhow::Result<Vec<String>> {
    Ok(Vec::new())
}
