//! Rows of figures, each beside its aim.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// What a figure should be.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    AtLeast(f64),
    Above(f64),
    AtMost(f64),
    /// Only to be known.
    None,
}

/// One figure.
#[derive(Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    case: String,
    figure: String,
    value: f64,
    unit: &'static str,
    aim: Option<String>,
    met: Option<bool>,
}

impl Row {
    pub(crate) fn new(bench: &'static str, case: &str, figure: &str, value: f64, unit: &'static str, aim: Aim) -> Self {
        let (text, met) = match aim {
            Aim::AtLeast(limit) => (Some(format!(">= {limit}")), Some(value >= limit)),
            Aim::Above(limit) => (Some(format!("> {limit}")), Some(value > limit)),
            Aim::AtMost(limit) => (Some(format!("<= {limit}")), Some(value <= limit)),
            Aim::None => (None, None),
        };
        Self { bench, case: case.to_owned(), figure: figure.to_owned(), value, unit, aim: text, met }
    }
}

/// Prints the rows as a table.
pub(crate) fn print(rows: &[Row]) {
    println!("{:<11}{:<34}{:<33}{:>10}  {:<8}{:<9}met", "bench", "case", "figure", "value", "unit", "aim");
    for row in rows {
        let met = row.met.map_or("", |met| if met { "yes" } else { "no" });
        let aim = row.aim.as_deref().unwrap_or("-");
        let value = if row.value >= 100.0 { format!("{:.0}", row.value) } else { format!("{:.3}", row.value) };
        println!("{:<11}{:<34}{:<33}{value:>10}  {:<8}{aim:<9}{met}", row.bench, row.case, row.figure, row.unit);
    }
}

/// Writes the rows as a JSON array.
pub(crate) fn write(rows: &[Row], file: &Path) -> Result<()> {
    std::fs::write(file, serde_json::to_vec_pretty(rows)?).with_context(|| format!("cannot write {}", file.display()))
}
