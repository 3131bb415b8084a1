//! Patching.

use skep_control_core::api::subresource::{apply_scale, decode_scale, scale};
use skep_control_core::api::{Document, PatchType, Status, Subresource, decode, patch};

use super::key::ResourceRef;
use super::write::{self, Step};
use super::{Api, Caller, Object, WriteOptions};

impl Api {
    /// Applies a patch to an object, or to one subresource of it. Gives the object and what the client is warned of.
    ///
    /// Errors: 404, 409 when the patch names another resourceVersion than is stored, 400 and 422.
    #[allow(clippy::too_many_arguments, reason = "each is one part of the request's path, or its body")]
    pub async fn patch(
        &self,
        _caller: &Caller,
        resource: impl ResourceRef,
        subresource: Option<Subresource>,
        ns: &str,
        name: &str,
        patch_type: PatchType,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<(Object, Vec<String>), Status> {
        let resource = resource.resolve()?;
        let mut warnings = Vec::new();
        let changed = self
            .transform(resource, ns, name, options.dry_run, |old| {
                if subresource == Some(Subresource::Scale) {
                    let patched = patch(resource, patch_type, &scale(resource, old)?, body)?;
                    let patched = decode_scale(Document::new(patched)?, options.field_validation)?;
                    let new = apply_scale(resource, old, &patched.object)?;
                    warnings = patched.warnings;
                    return write::replace(resource, None, new, old);
                }
                let patched = patch(resource, patch_type, old, body)?;
                let decoded = decode(resource, Document::new(patched)?, options.field_validation)?;
                warnings = decoded.warnings;
                let step: Step = write::replace(resource, subresource, decoded.object, old)?;
                Ok(step)
            })
            .await?;
        Ok((changed.object, warnings))
    }
}
