//! What was acknowledged is there after a kill.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{CONFIG_MAPS, Cluster, config_map};

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(dir: &std::path::Path, port: u16) -> Process {
    let child = Command::new(env!("CARGO_BIN_EXE_skep-control"))
        .args(["serve", "--api-only", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(dir)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Process(child)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut acknowledged: Vec<(String, String)> = Vec::new();
    for round in 0..5 {
        let process = spawn(dir.path(), port);
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        let client = Cluster::client_of(dir.path(), address).await;
        let writers = (0..4).map(|writer| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut done = Vec::new();
                for n in 0.. {
                    let name = format!("r{round}-w{writer}-{n}");
                    match client.try_post(CONFIG_MAPS, &config_map(&name)).await {
                        Some(answer) if answer.code == 201 => {
                            let made = answer.json();
                            done.push((name, made["metadata"]["resourceVersion"].as_str().unwrap().to_owned()));
                        }
                        _ => break,
                    }
                }
                done
            })
        });
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(Duration::from_millis(300 + 97 * round)).await;
        drop(process);
        for writer in writers {
            acknowledged.extend(writer.await.unwrap());
        }
    }
    assert!(acknowledged.len() > 20, "{} writes only", acknowledged.len());
    let _process = spawn(dir.path(), port);
    let client = Cluster::client_of(dir.path(), format!("127.0.0.1:{port}").parse().unwrap()).await;
    let list = client.get(CONFIG_MAPS).await.expect(200);
    let there: std::collections::HashMap<_, _> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["metadata"]["name"].as_str().unwrap(), item["metadata"]["resourceVersion"].as_str().unwrap()))
        .collect();
    for (name, revision) in &acknowledged {
        assert_eq!(there.get(name.as_str()), Some(&revision.as_str()), "{name}");
    }
}
