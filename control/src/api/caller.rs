//! Who asks.

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User name: the certificate's common name.
    pub user: String,
    /// Groups: the certificate's organizations.
    pub groups: Vec<String>,
}

impl Caller {
    /// A part of this process, such as `deployment-controller`.
    pub fn system(component: &str) -> Self {
        Self { user: format!("system:{component}"), groups: vec!["system:masters".to_owned()] }
    }

    /// The node's name, when a node asks.
    pub fn node_name(&self) -> Option<&str> {
        let name = self.user.strip_prefix("system:node:")?;
        if !name.is_empty() && self.in_group("system:nodes") { Some(name) } else { None }
    }

    /// Whether the caller may do everything.
    pub fn is_admin(&self) -> bool {
        self.in_group("system:masters")
    }

    fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}
