//! What a client saw, as one JSON object on standard output.

use std::collections::BTreeMap;
use std::io;

/// Counts answers by the name of who answered and failures by their error.
#[derive(Default)]
pub(crate) struct Report {
    answers: BTreeMap<String, u64>,
    failures: BTreeMap<String, u64>,
    slowest_us: u64,
}

impl Report {
    /// Counts one request.
    pub(crate) fn count(&mut self, result: io::Result<String>, micros: u64) {
        match result {
            Ok(answer) => {
                let name = answer.split_whitespace().next().unwrap_or("").to_owned();
                *self.answers.entry(name).or_default() += 1;
                self.slowest_us = self.slowest_us.max(micros);
            }
            Err(error) => *self.failures.entry(format!("{:?}", error.kind())).or_default() += 1,
        }
    }

    /// Adds the counts of another report.
    pub(crate) fn merge(&mut self, other: Self) {
        for (name, count) in other.answers {
            *self.answers.entry(name).or_default() += count;
        }
        for (error, count) in other.failures {
            *self.failures.entry(error).or_default() += count;
        }
        self.slowest_us = self.slowest_us.max(other.slowest_us);
    }

    /// Prints the report; true when nothing failed and something was answered.
    pub(crate) fn print(&self) -> bool {
        let (ok, failed): (u64, u64) = (self.answers.values().sum(), self.failures.values().sum());
        println!(
            r#"{{"ok":{ok},"failed":{failed},"slowest_us":{},"answers":{},"failures":{}}}"#,
            self.slowest_us,
            object(&self.answers),
            object(&self.failures)
        );
        failed == 0 && ok > 0
    }
}

/// Names are host names and error kinds: nothing in them needs escaping.
fn object(counts: &BTreeMap<String, u64>) -> String {
    let members: Vec<String> = counts.iter().map(|(name, count)| format!(r#""{name}":{count}"#)).collect();
    format!("{{{}}}", members.join(","))
}
