//! Requests per second through the whole service, TLS and disk included, client and server on the same cores:
//! `cargo bench -p skep-control --bench rest`. Aims are what kube-apiserver 1.20 with etcd 3.4 gave on the reference
//! machine, its clients on the same two cores.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench ends at the first failure, and prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use skep_control::config::{Cli, Command};
use skep_control::pki::Pki;
use skep_control::serve::Control;
use skep_control::tls;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

type Sender = SendRequest<Full<Bytes>>;

async fn connect(connector: &TlsConnector, address: std::net::SocketAddr) -> Sender {
    let tcp = TcpStream::connect(address).await.unwrap();
    tcp.set_nodelay(true).unwrap();
    let tls = connector.connect(ServerName::IpAddress(address.ip().into()), tcp).await.unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn request(sender: &mut Sender, method: Method, path: &str, body: String) -> usize {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    response.into_body().collect().await.unwrap().to_bytes().len()
}

fn config_map(name: &str) -> String {
    let value = "x".repeat(300);
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"k":"{value}"}}}}"#)
}

/// Runs `one` on so many connections for so long; prints requests per second and percentiles of their times.
async fn run<F, Fut>(case: &str, aim: f64, senders: Vec<Sender>, time: Duration, one: F) -> Vec<Sender>
where
    F: Fn(Sender, usize, usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Sender> + Send,
{
    let one = Arc::new(one);
    let started = Instant::now();
    let workers = senders.into_iter().enumerate().map(|(worker, mut sender)| {
        let one = one.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            for n in 0.. {
                let begun = Instant::now();
                if begun - started > time {
                    break;
                }
                sender = one(sender, worker, n).await;
                times.push(begun.elapsed());
            }
            (sender, times)
        })
    });
    let (mut senders, mut times) = (Vec::new(), Vec::new());
    for worker in workers.collect::<Vec<_>>() {
        let (sender, more) = worker.await.unwrap();
        senders.push(sender);
        times.extend(more);
    }
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!(
        "{case:<34} {rate:>8.0}/s   aim {aim:>6.0}/s {}   p50 {:.2} ms   p99 {:.2} ms",
        if rate >= aim { "met" } else { "MISSED" },
        at(0.5),
        at(0.99)
    );
    senders
}

fn resident_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let arguments = ["skep-control", "serve", "--data-dir", path, "--listen", "127.0.0.1:0"];
    let Command::Serve(config) = Cli::try_parse_from(arguments).unwrap().command else { return };
    let started = Instant::now();
    let control = Control::start(config).await.unwrap();
    println!("start to serving                   {:>8.0} ms", started.elapsed().as_secs_f64() * 1e3);
    let pki = Pki::load_or_create(dir.path(), &[], &control.endpoint).unwrap();
    let connector = TlsConnector::from(tls::client_config(&pki).unwrap());
    println!("resident, idle                     {:>8.1} MB", resident_megabytes());

    let time = Duration::from_secs(5);
    let one = vec![connect(&connector, control.address).await];
    let mut many = Vec::new();
    for _ in 0..32 {
        many.push(connect(&connector, control.address).await);
    }
    let post = |prefix: &'static str| {
        move |mut sender: Sender, worker: usize, n: usize| async move {
            let name = format!("{prefix}-{worker}-{n}");
            request(&mut sender, Method::POST, CONFIG_MAPS, config_map(&name)).await;
            sender
        }
    };
    run("POST 0.5 KB, 1 connection", 381.0, one, time, post("a")).await;
    let many = run("POST 0.5 KB, 32 connections", 1228.0, many, time, post("b")).await;
    let get = |mut sender: Sender, _: usize, _: usize| async move {
        request(&mut sender, Method::GET, &format!("{CONFIG_MAPS}/a-0-0"), String::new()).await;
        sender
    };
    let mut many = run("GET, 32 connections", 4503.0, many, time, get).await;
    let begun = Instant::now();
    let bytes = request(&mut many[0], Method::GET, CONFIG_MAPS, String::new()).await;
    let objects = control.api.list("configmaps", "", &Default::default()).await.unwrap().items.len();
    let megabytes = bytes as f64 / 1e6;
    println!("LIST {objects} objects, {megabytes:.1} MB          {:>8.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    println!("resident, with them                {:>8.1} MB (client included)", resident_megabytes());
    control.stop().await;
}
