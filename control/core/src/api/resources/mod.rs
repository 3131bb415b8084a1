//! The served resources, one file each.

use super::resource::Registry;

static REGISTRY: Registry = Registry::new(&[]);

/// Everything that this server serves.
pub fn registry() -> &'static Registry {
    &REGISTRY
}
