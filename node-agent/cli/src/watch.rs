//! `skep maps NAME --watch`: what comes and goes in a map.

use std::collections::BTreeSet;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use crate::args::Output;

/// How often the map is read.
const INTERVAL: Duration = Duration::from_millis(250);

/// Fields that change by themselves as time goes by: no reason to show a row again.
const CLOCKS: [&str; 2] = ["expires_in_seconds", "last_used_seconds_ago"];

/// Shows each row once when it comes (`+`) and when it goes (`-`); a row that changes goes and comes. `read` gives the rows
/// as a JSON array. Ends only with an error, that of a reader who has gone included.
pub(crate) fn follow(output: Output, mut read: impl FnMut() -> Result<String>, out: &mut impl Write) -> Result<()> {
    let mut known = BTreeSet::new();
    loop {
        let now = rows(&read()?)?;
        for gone in known.difference(&now) {
            writeln!(out, "{}", line(output, '-', gone)?)?;
        }
        for new in now.difference(&known) {
            writeln!(out, "{}", line(output, '+', new)?)?;
        }
        out.flush()?;
        known = now;
        sleep(INTERVAL);
    }
}

/// Rows without their clocks, as text that compares.
fn rows(json: &str) -> Result<BTreeSet<String>> {
    let rows: Vec<Map<String, Value>> = serde_json::from_str(json).context("rows of the map")?;
    let text = |mut row: Map<String, Value>| {
        row.retain(|field, _| !CLOCKS.contains(&field.as_str()));
        Value::Object(row).to_string()
    };
    Ok(rows.into_iter().map(text).collect())
}

fn line(output: Output, sign: char, row: &str) -> Result<String> {
    let fields: Map<String, Value> = serde_json::from_str(row)?;
    Ok(match output {
        Output::Json => {
            serde_json::json!({"change": if sign == '+' { "added" } else { "removed" }, "row": fields}).to_string()
        }
        Output::Table => {
            let shown = fields.iter().filter(|(_, value)| !matches!(value, Value::Null) && *value != "");
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let cells: Vec<String> = shown.map(|(field, value)| format!("{field}={}", text(value))).collect();
            format!("{sign} {}", cells.join(" "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shown_when_they_come_and_go_and_not_when_only_their_clock_ticks() {
        let mut reads = [
            r#"[{"a": "x", "expires_in_seconds": 3}, {"a": "y", "b": 1}]"#,
            r#"[{"a": "x", "expires_in_seconds": 2}, {"a": "y", "b": 2}]"#,
            r#"[{"a": "y", "b": 2}]"#,
        ]
        .into_iter();
        let mut out = Vec::new();
        let read = || reads.next().map(str::to_owned).context("the end of the test");
        assert!(follow(Output::Table, read, &mut out).is_err());
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown, "+ a=x\n+ a=y b=1\n- a=y b=1\n+ a=y b=2\n- a=x\n");
    }

    #[test]
    fn as_json_each_change_is_an_object() {
        let text = line(Output::Json, '-', r#"{"a":"x"}"#).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((value["change"].as_str(), value["row"]["a"].as_str()), (Some("removed"), Some("x")));
    }
}
