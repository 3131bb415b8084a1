//! Measurements in turns, and the ratios between them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use skep_tests::testbed::{Client, TestCluster};

use super::super::report::{Aim, Row};
use super::{BENCH, Options};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// New TCP connections.
    Connections,
    /// Bytes of one TCP stream.
    Stream,
    /// One byte there and back over one connection.
    Exchanges,
    /// Datagrams that are answered.
    Datagrams,
    /// Datagrams in one direction, as many as arrive.
    Packets,
}

impl What {
    /// What is measured between pods.
    pub(super) const ALL: [Self; 4] = [Self::Connections, Self::Stream, Self::Exchanges, Self::Datagrams];

    /// Name and unit of the figure.
    fn figure(self) -> (&'static str, &'static str) {
        match self {
            Self::Connections => ("connections", "1/s"),
            Self::Stream => ("stream", "MiB/s"),
            Self::Exchanges => ("TCP_RR", "1/s"),
            Self::Datagrams => ("UDP_RR", "1/s"),
            Self::Packets => ("UDP pps", "1/s"),
        }
    }

    /// Name of the ratio to something else.
    pub(super) fn of(self, other: &str) -> String {
        format!("{} of {other}", self.figure().0)
    }

    /// The demo client's command, its options, the Service's port and the server's own.
    fn command(self) -> (&'static str, &'static str, u16, u16) {
        match self {
            Self::Connections => ("rate", "--concurrency 2", 80, 8081),
            Self::Stream => ("stream", "", 81, 8082),
            Self::Exchanges => ("rr", "", 82, 8083),
            // Not connected: through the socket hooks. Connected ones of pods are tc's.
            Self::Datagrams => ("pps", "", 80, 8080),
            Self::Packets => ("flood", "", 83, 8082),
        }
    }
}

/// Where a case goes to.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A pod's own address.
    Direct(String),
    /// An address with a Service's ports.
    Service(String),
    /// A node's address with a node port for each [`What`].
    NodePorts(String, [u16; 5]),
}

impl Target {
    fn address(&self, what: What) -> String {
        let (_, _, port, own) = what.command();
        match self {
            Self::Direct(address) => format!("{address}:{own}"),
            Self::Service(address) => format!("{address}:{port}"),
            Self::NodePorts(address, ports) => format!("{address}:{}", ports[what as usize]),
        }
    }
}

/// Figures by case.
pub(super) struct Measured<'a> {
    cluster: &'a TestCluster,
    client: &'a Client,
    options: &'a Options,
    /// In the order of the rounds.
    samples: BTreeMap<(String, What), Vec<f64>>,
}

impl<'a> Measured<'a> {
    pub(super) fn new(cluster: &'a TestCluster, client: &'a Client, options: &'a Options) -> Self {
        Self { cluster, client, options, samples: BTreeMap::new() }
    }

    /// Measures a case once.
    pub(super) fn measure(&mut self, case: &str, what: What, target: &Target) -> Result<()> {
        let (command, rest, ..) = what.command();
        let line = format!("{command} {} {rest} --seconds {}", target.address(what), self.options.seconds);
        let report = self.cluster.demo_from(self.client, &line).with_context(|| case.to_owned())?;
        // A datagram may be lost where a queue is full, and a flood fills it; a connection must not fail.
        ensure!(
            report.ok > 0 && (report.failed == 0 || matches!(what, What::Datagrams | What::Packets)),
            "{case}: {report:?}"
        );
        let scale = if what == What::Stream { f64::from(1 << 20) } else { 1.0 };
        let value = report.per_second / scale;
        let (figure, unit) = what.figure();
        println!("{case:<34}{figure:<13}{value:>9.0} {unit}");
        self.samples.entry((case.to_owned(), what)).or_default().push(value);
        Ok(())
    }

    /// Median over the rounds of the ratio within each round.
    pub(super) fn ratio(&self, what: What, case: &str, to: &str) -> Result<f64> {
        let samples =
            |case: &str| self.samples.get(&(case.to_owned(), what)).with_context(|| format!("{case} was not measured"));
        let ratios: Vec<f64> = samples(case)?.iter().zip(samples(to)?).map(|(a, b)| a / b).collect();
        Ok(median(&ratios))
    }

    /// The figures themselves.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |((case, what), samples): (&(String, What), &Vec<f64>)| {
            let (figure, unit) = what.figure();
            Row::new(BENCH, case, figure, median(samples), unit, Aim::None)
        };
        self.samples.iter().map(row).collect()
    }
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
