use super::{Domain, Name};

/// Dots that a name must have to be asked for as it is first, in pods (`options ndots:5`).
pub const NDOTS: usize = 5;

/// The names that a pod of the Namespace asks for, in this order, when a program looks `text` up: what the resolver does
/// with `search NAMESPACE.svc.DOMAIN svc.DOMAIN DOMAIN FURTHER...` (resolv.conf(5)). A name that is too long, or no name
/// at all, is left out.
#[must_use]
pub fn candidates(text: &str, namespace: &str, domain: &Domain, further: &[String]) -> Vec<Name> {
    let plain = Name::bytes_from_str(text).ok().filter(|_| !text.is_empty());
    if text.ends_with('.') {
        return plain.into_iter().collect();
    }
    let apex = domain.apex();
    let own = [format!("{namespace}.svc.{apex}"), format!("svc.{apex}"), apex.to_string()];
    let searched = own.iter().chain(further).filter_map(|suffix| {
        let name = Name::bytes_from_str(&format!("{text}.{suffix}")).ok()?;
        Some(name).filter(|_| !text.is_empty())
    });
    let dots = text.matches('.').count();
    let mut names: Vec<Name> = if dots >= NDOTS { plain.clone() } else { None }.into_iter().chain(searched).collect();
    if dots < NDOTS {
        names.extend(plain);
    }
    let mut seen: Vec<Name> = Vec::with_capacity(names.len());
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}
