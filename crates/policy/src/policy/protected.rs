//! Paths that only a specific rule permits.
//!
//! A rule is specific if it spells the part that protects the path: `allow write .env.local` does,
//! `allow write` and `allow write **` do not. For a path outside the workspace that means a pattern
//! that begins with `/` or `~/`.

use paths::{AbsPath, Sensitive, sensitive_name};

use crate::{Capability, Decision};

/// Reason why a path is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protection {
    /// A noun phrase for messages.
    pub(crate) what: &'static str,
    /// The name that a rule must spell; `None` for a whole path.
    pub(crate) name: Option<String>,
    pub(crate) read: Decision,
    pub(crate) write: Decision,
}

impl Protection {
    /// The decision without a specific rule.
    pub(crate) fn decision(&self, capability: Capability) -> Decision {
        if capability == Capability::Read { self.read } else { self.write }
    }
}

/// The protection of `path`, links resolved, if any.
///
/// `own` are Pilcrow's directories: rules, trust and permissions must not come from its tools.
pub(crate) fn protection(path: &AbsPath, root: &AbsPath, own: &[AbsPath]) -> Option<Protection> {
    if let Some(own) = own
        .iter()
        .find(|own| path.starts_with(own) || own.starts_with(path) && path.starts_with(root) && path != root)
    {
        let what = "Pilcrow's own settings and state";
        return Some(Protection {
            what,
            name: Some(own.to_string()),
            read: Decision::Ask,
            write: Decision::Deny,
        });
    }
    if let Some((kind, name)) = sensitive_name(path, root) {
        let (read, write) = match kind {
            Sensitive::Credentials => (Decision::Deny, Decision::Deny),
            Sensitive::VersionControl => (Decision::Ask, Decision::Deny),
            Sensitive::Environment => (Decision::Ask, Decision::Ask),
            Sensitive::Settings | Sensitive::Executed => (Decision::Allow, Decision::Ask),
        };
        return Some(Protection { what: kind.description(), name: Some(name), read, write });
    }
    let what = "a file outside the workspace";
    (!path.starts_with(root)).then_some(Protection {
        what,
        name: None,
        read: Decision::Ask,
        write: Decision::Deny,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_are_protected_and_keys_stay_denied() {
        let root = AbsPath::new("/home/me/w").unwrap();
        let protection = |path: &str| protection(&AbsPath::new(path).unwrap(), &root, &[]);
        let outside = protection("/home/me/other/a.rs").unwrap();
        assert_eq!((outside.name, outside.write), (None, Decision::Deny));
        let key = protection("/home/me/.ssh/id_rsa").unwrap();
        assert_eq!((key.what, key.read), ("keys and logins", Decision::Deny));
        assert!(protection("/home/me/w").is_none());
        let executed = protection("/home/me/w/.vscode/tasks.json").unwrap();
        assert_eq!((executed.read, executed.write), (Decision::Allow, Decision::Ask));
    }

    #[test]
    fn own_directories_need_a_rule_that_names_them() {
        let [root, own] = ["/home/me", "/home/me/.config/pilcrow"].map(|path| AbsPath::new(path).unwrap());
        let of = |path: &str| protection(&AbsPath::new(path).unwrap(), &root, std::slice::from_ref(&own));
        for path in ["/home/me/.config/pilcrow/config.toml", "/home/me/.config/pilcrow", "/home/me/.config"] {
            let found = of(path).unwrap();
            assert_eq!((found.write, found.name), (Decision::Deny, Some(own.to_string())), "{path}");
        }
        assert!(of("/home/me/.config/other/a.toml").is_none() && of("/home/me").is_none());
    }
}
