//! temporary
pub fn show(_: &crate::cli::Project, _: bool) -> anyhow::Result<super::Exit> {
    Ok(super::Exit::Done)
}
