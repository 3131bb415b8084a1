//! Environment variables of a container, and the `$(NAME)` references in what it runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMapKeySelector, Container, EnvFromSource, EnvVarSource, SecretKeySelector};

use super::fields::Fields;
use super::invalid::ConfigError;
use super::objects::Objects;

/// The variables in the order of their declaration, each name once with its last value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Environment {
    variables: Vec<(String, String)>,
    positions: BTreeMap<String, usize>,
}

impl Environment {
    /// Evaluates `envFrom`, then `env`.
    ///
    /// # Errors
    /// Something that is not optional is not there.
    pub fn of(container: &Container, fields: &Fields<'_>, objects: &Objects) -> Result<Self, ConfigError> {
        let mut environment = Self::default();
        for source in container.env_from.iter().flatten() {
            environment.import(source, objects)?;
        }
        for variable in container.env.iter().flatten() {
            let value = match &variable.value_from {
                None => Some(environment.expand(variable.value.as_deref().unwrap_or_default())),
                Some(source) => resolve(source, container, fields, objects)?,
            };
            if let Some(value) = value {
                environment.set(&variable.name, value);
            }
        }
        Ok(environment)
    }

    /// The variables.
    #[must_use]
    pub fn into_variables(self) -> Vec<(String, String)> {
        self.variables
    }

    /// Replaces `$(NAME)` by the variable's value where there is such a variable; `$$` stands for one `$`.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(position) = rest.find('$') {
            out.push_str(&rest[..position]);
            let after = &rest[position + 1..];
            if let Some(escaped) = after.strip_prefix('$') {
                out.push('$');
                rest = escaped;
                continue;
            }
            let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
            match reference {
                Some((name, behind)) => {
                    match self.get(name) {
                        Some(value) => out.push_str(value),
                        None => {
                            out.push_str("$(");
                            out.push_str(name);
                            out.push(')');
                        }
                    }
                    rest = behind;
                }
                None => {
                    out.push('$');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }

    fn get(&self, name: &str) -> Option<&str> {
        let position = *self.positions.get(name)?;
        self.variables.get(position).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: String) {
        match self.positions.get(name).and_then(|position| self.variables.get_mut(*position)) {
            Some(variable) => variable.1 = value,
            None => {
                self.positions.insert(name.to_owned(), self.variables.len());
                self.variables.push((name.to_owned(), value));
            }
        }
    }

    fn import(&mut self, source: &EnvFromSource, objects: &Objects) -> Result<(), ConfigError> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            match objects.config_maps.get(&reference.name) {
                Some(map) => {
                    for (key, value) in map.data.iter().flatten().filter(|(key, _)| usable_name(key)) {
                        self.set(&format!("{prefix}{key}"), value.clone());
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(ConfigError::ConfigMapNotFound(reference.name.clone())),
            }
        }
        if let Some(reference) = &source.secret_ref {
            match objects.secrets.get(&reference.name) {
                Some(secret) => {
                    for (key, value) in secret.data.iter().flatten().filter(|(key, _)| usable_name(key)) {
                        let value = text(&value.0, &reference.name, key)?;
                        self.set(&format!("{prefix}{key}"), value);
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(ConfigError::SecretNotFound(reference.name.clone())),
            }
        }
        Ok(())
    }
}

/// A name that a process's environment can hold.
fn usable_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=' || byte == b' ')
}

fn resolve(
    source: &EnvVarSource,
    container: &Container,
    fields: &Fields<'_>,
    objects: &Objects,
) -> Result<Option<String>, ConfigError> {
    if let Some(selector) = &source.field_ref {
        return fields.field(selector).map(Some);
    }
    if let Some(selector) = &source.resource_field_ref {
        return fields.resource(selector, Some(container)).map(Some);
    }
    let namespace = fields.pod.metadata.namespace.clone().unwrap_or_default();
    if let Some(selector) = &source.config_map_key_ref {
        return config_map_key(selector, namespace, objects);
    }
    if let Some(selector) = &source.secret_key_ref {
        return secret_key(selector, namespace, objects);
    }
    Ok(Some(String::new()))
}

fn config_map_key(
    selector: &ConfigMapKeySelector,
    namespace: String,
    objects: &Objects,
) -> Result<Option<String>, ConfigError> {
    let optional = selector.optional == Some(true);
    let Some(map) = objects.config_maps.get(&selector.name) else {
        return if optional { Ok(None) } else { Err(ConfigError::ConfigMapNotFound(selector.name.clone())) };
    };
    match map.data.as_ref().and_then(|data| data.get(&selector.key)) {
        Some(value) => Ok(Some(value.clone())),
        None if optional => Ok(None),
        None => Err(ConfigError::KeyNotFound {
            kind: "ConfigMap",
            namespace,
            name: selector.name.clone(),
            key: selector.key.clone(),
        }),
    }
}

fn secret_key(
    selector: &SecretKeySelector,
    namespace: String,
    objects: &Objects,
) -> Result<Option<String>, ConfigError> {
    let optional = selector.optional == Some(true);
    let Some(secret) = objects.secrets.get(&selector.name) else {
        return if optional { Ok(None) } else { Err(ConfigError::SecretNotFound(selector.name.clone())) };
    };
    match secret.data.as_ref().and_then(|data| data.get(&selector.key)) {
        Some(value) => text(&value.0, &selector.name, &selector.key).map(Some),
        None if optional => Ok(None),
        None => Err(ConfigError::KeyNotFound {
            kind: "Secret",
            namespace,
            name: selector.name.clone(),
            key: selector.key.clone(),
        }),
    }
}

fn text(value: &[u8], name: &str, key: &str) -> Result<String, ConfigError> {
    String::from_utf8(value.to_vec()).map_err(|_| ConfigError::NotText { name: name.to_owned(), key: key.to_owned() })
}

#[cfg(test)]
mod tests;
