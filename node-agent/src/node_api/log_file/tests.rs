use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use tempfile::NamedTempFile;

use super::*;

const LOG: &str = "\
2026-01-01T00:00:01.000000000Z stdout F one
2026-01-01T00:00:02.000000000Z stderr P tw
2026-01-01T00:00:02.100000000Z stderr F o
2026-01-01T00:00:03.000000000Z stdout F three
";

fn options(query: &[(&str, &str)]) -> Result<LogOptions, super::super::error::Error> {
    let query: HashMap<String, String> = query.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    LogOptions::parse(&query, "2026-01-01T00:00:10Z".parse::<Timestamp>().unwrap())
}

async fn read(query: &[(&str, &str)]) -> String {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(LOG.as_bytes()).unwrap();
    let (sender, mut receiver) = mpsc::channel(100);
    copy(file.path(), &options(query).unwrap(), || false, &sender).await.unwrap();
    drop(sender);
    let mut text = Vec::new();
    while let Some(piece) = receiver.recv().await {
        text.extend_from_slice(&piece.unwrap());
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn parts_and_forms() {
    let table: [(&[(&str, &str)], &str); 9] = [
        (&[], "one\ntwo\nthree\n"),
        (&[("tailLines", "1")], "three\n"),
        (&[("tailLines", "0")], ""),
        (&[("tailLines", "100")], "one\ntwo\nthree\n"),
        (&[("sinceSeconds", "8")], "two\nthree\n"),
        (&[("sinceTime", "2026-01-01T00:00:02.5Z")], "three\n"),
        (&[("limitBytes", "6")], "one\ntw"),
        (&[("timestamps", "true"), ("tailLines", "1")], "2026-01-01T00:00:03.000000000Z three\n"),
        (
            &[("timestamps", "true"), ("sinceSeconds", "8"), ("limitBytes", "36")],
            "2026-01-01T00:00:02.000000000Z two\n2",
        ),
    ];
    for (query, expected) in table {
        assert_eq!(read(query).await, expected, "{query:?}");
    }
}

#[test]
fn bad_options_name_the_field() {
    let table: [(&[(&str, &str)], &str); 5] = [
        (&[("tailLines", "-1")], "invalid value \"-1\" of tailLines: must be greater than or equal to 0"),
        (&[("limitBytes", "0")], "invalid value \"0\" of limitBytes: must be greater than 0"),
        (&[("follow", "yes")], "invalid value \"yes\" of follow: must be true or false"),
        (&[("sinceTime", "now")], "invalid value \"now\" of sinceTime: must be a time as in RFC 3339"),
        (
            &[("sinceTime", "2026-01-01T00:00:00Z"), ("sinceSeconds", "1")],
            "invalid value \"2026-01-01T00:00:00Z\" of sinceTime: at most one of sinceTime and sinceSeconds may be specified",
        ),
    ];
    for (query, expected) in table {
        assert_eq!(options(query).unwrap_err().to_string(), expected);
    }
}

#[tokio::test]
async fn follows_through_rotation_until_the_container_ends() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("0.log");
    let running = Arc::new(AtomicBool::new(true));
    let (sender, mut receiver) = mpsc::channel(100);
    let task = tokio::spawn({
        let (path, running) = (path.clone(), Arc::clone(&running));
        async move {
            let options = options(&[("follow", "true")]).unwrap();
            copy(&path, &options, || running.load(Ordering::Relaxed), &sender).await
        }
    });
    let line = |text: &str| format!("2026-01-01T00:00:01Z stdout F {text}\n");
    tokio::time::sleep(POLL).await;
    std::fs::write(&path, line("a")).unwrap();
    assert_eq!(receiver.recv().await.unwrap().unwrap(), "a\n");
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&line("b").as_bytes()[..20]).unwrap();
    tokio::time::sleep(POLL * 2).await;
    file.write_all(&line("b").as_bytes()[20..]).unwrap();
    assert_eq!(receiver.recv().await.unwrap().unwrap(), "b\n");
    std::fs::rename(&path, dir.path().join("0.log.old")).unwrap();
    std::fs::write(&path, line("c")).unwrap();
    assert_eq!(receiver.recv().await.unwrap().unwrap(), "c\n");
    running.store(false, Ordering::Relaxed);
    assert!(receiver.recv().await.is_none());
    task.await.unwrap().unwrap();
}
