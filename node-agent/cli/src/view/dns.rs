//! What a pod finds under a name, and why.

use serde::{Deserialize, Serialize};

use crate::table::{Row, columns};

/// The agent's answer to `GET /dns`.
#[derive(Debug, Deserialize)]
pub(crate) struct Explanation {
    question: String,
    namespace: String,
    pub(crate) found: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Step {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    outcome: Outcome,
    rcode: String,
    origin: Option<Origin>,
    #[serde(default)]
    upstream: Vec<String>,
    cached: bool,
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Found,
    NoData,
    NoName,
    Failed,
}

#[derive(Debug, Deserialize)]
struct Origin {
    meaning: String,
    objects: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Record {
    name: String,
    ttl: u32,
    #[serde(rename = "type")]
    rtype: String,
    data: String,
}

/// A question as a row.
#[derive(Debug, Serialize)]
struct StepRow {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    answer: String,
    from: String,
}

impl Row for StepRow {
    const HEADER: &'static [&'static str] = &["ASKED", "TYPE", "ANSWER", "FROM"];

    fn cells(&self) -> Vec<String> {
        vec![self.name.clone(), self.rtype.clone(), self.answer.clone(), self.from.clone()]
    }
}

/// A record of the answer as a row.
#[derive(Debug, Serialize)]
struct RecordRow<'a> {
    name: &'a str,
    ttl: u32,
    #[serde(rename = "type")]
    rtype: &'a str,
    data: &'a str,
}

impl Row for RecordRow<'_> {
    const HEADER: &'static [&'static str] = &["NAME", "TTL", "TYPE", "DATA"];

    fn cells(&self) -> Vec<String> {
        vec![self.name.to_owned(), self.ttl.to_string(), self.rtype.to_owned(), self.data.to_owned()]
    }
}

impl Explanation {
    /// As text for people.
    pub(crate) fn text(&self) -> String {
        let steps: Vec<StepRow> = self.steps.iter().map(Step::row).collect();
        let records: Vec<RecordRow<'_>> = self.steps.iter().flat_map(|step| &step.records).map(Record::row).collect();
        let mut text = format!("{} as a pod of {} looks it up\n\n{}", self.question, self.namespace, columns(&steps));
        if !records.is_empty() {
            text.push('\n');
            text.push_str(&columns(&records));
        }
        text
    }
}

impl Step {
    fn row(&self) -> StepRow {
        let answer = match self.outcome {
            Outcome::Found if self.records.len() == 1 => "1 record".to_owned(),
            Outcome::Found => format!("{} records", self.records.len()),
            Outcome::NoData => "no record of the type".to_owned(),
            Outcome::NoName => "no such name".to_owned(),
            Outcome::Failed => format!("failed, {}", self.rcode),
        };
        let from = match &self.origin {
            Some(origin) if origin.objects.is_empty() => origin.meaning.clone(),
            Some(origin) => format!("{}: {}", origin.meaning, origin.objects.join(", ")),
            None => String::new(),
        };
        let elsewhere = match (self.upstream.is_empty(), self.cached) {
            (true, _) => String::new(),
            (false, true) => format!("kept from {}", self.upstream.join(", ")),
            (false, false) => format!("asked {}", self.upstream.join(", ")),
        };
        let parts = [from, elsewhere].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        StepRow { name: self.name.clone(), rtype: self.rtype.clone(), answer, from: parts.join("; ") }
    }
}

impl Record {
    fn row(&self) -> RecordRow<'_> {
        RecordRow { name: &self.name, ttl: self.ttl, rtype: &self.rtype, data: &self.data }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_try_says_where_it_ended() {
        let explanation: Explanation = serde_json::from_value(json!({
            "question": "away", "namespace": "shop", "found": true,
            "steps": [
                {"name": "away.shop.svc.cluster.local", "type": "A", "outcome": "found", "rcode": "NOERROR", "cached": false,
                 "origin": {"meaning": "Service of type ExternalName", "objects": ["Service shop/away"]},
                 "upstream": ["192.0.2.53:53"],
                 "records": [
                    {"name": "away.shop.svc.cluster.local", "ttl": 5, "type": "CNAME", "data": "www.example.com."},
                    {"name": "www.example.com", "ttl": 60, "type": "A", "data": "192.0.2.1"}]},
                {"name": "away.svc.cluster.local", "type": "A", "outcome": "noName", "rcode": "NXDOMAIN", "cached": false,
                 "origin": {"meaning": "no such name in the cluster", "objects": []}, "records": []},
                {"name": "away", "type": "A", "outcome": "failed", "rcode": "SERVFAIL", "cached": true,
                 "upstream": ["192.0.2.53:53", "[2001:db8::53]:53"], "records": []},
                {"name": "away", "type": "AAAA", "outcome": "noData", "rcode": "NOERROR", "cached": false, "records": []}
            ]
        }))
        .unwrap();
        assert_eq!(
            explanation.text(),
            "\
away as a pod of shop looks it up

ASKED                         TYPE   ANSWER                  FROM
away.shop.svc.cluster.local   A      2 records               Service of type ExternalName: Service shop/away; asked 192.0.2.53:53
away.svc.cluster.local        A      no such name            no such name in the cluster
away                          A      failed, SERVFAIL        kept from 192.0.2.53:53, [2001:db8::53]:53
away                          AAAA   no record of the type   -

NAME                          TTL   TYPE    DATA
away.shop.svc.cluster.local   5     CNAME   www.example.com.
www.example.com               60    A       192.0.2.1
"
        );
    }
}
