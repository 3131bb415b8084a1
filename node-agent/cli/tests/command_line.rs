//! Exit codes and messages, without a dataplane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::{Command, Output, Stdio};

fn skep(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_skep")).args(args).output().unwrap()
}

#[test]
fn without_a_dataplane_everything_fails_with_one_clear_line() {
    for command in ["status", "maps", "services", "conntrack", "endpoints", "drops"] {
        let output = skep(&["--bpf-dir", "/nonexistent", command]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {error}");
        assert!(error.starts_with("skep: no dataplane of version") && error.lines().count() == 1, "{command}: {error}");
        assert!(output.stdout.is_empty());
    }
    let output = skep(&["--run-dir", "/nonexistent", "observe"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the agent does not answer at /nonexistent/agent.sock"));
    let output = skep(&["--run-dir", "/nonexistent", "dns", "web"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the agent does not answer at /nonexistent/agent.sock"));
}

#[test]
fn a_wrong_command_line_is_2() {
    for args in [&["frobnicate"][..], &["status", "-o", "yaml"], &["policy"], &[]] {
        assert_eq!(skep(args).status.code(), Some(2), "{args:?}");
    }
    assert!(skep(&["--help"]).status.success());
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_skep"))
        .arg("--help")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8(output.stderr).unwrap().contains("panicked"));
}
