//! Runs programs and turns what went wrong into errors that say what was run.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A command from a program and its arguments.
pub fn command<I>(program: impl AsRef<OsStr>, args: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command
}

/// A command from words separated by spaces, for arguments that hold none.
pub fn words(line: &str) -> Command {
    let mut words = line.split_whitespace();
    command(words.next().unwrap_or_default(), words)
}

/// Runs to the end and returns standard output; an exit code other than 0 is an error that carries standard error.
pub fn run(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", describe(command), output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs to the end and returns everything; only a program that cannot be started is an error.
pub fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("cannot run {}", describe(command)))
}

/// Feeds several `ip` commands to one process: `ip -batch`, in a named network namespace or here.
pub fn ip_batch(netns: Option<&str>, lines: &[String]) -> Result<()> {
    use std::io::Write as _;
    let mut ip = Command::new("ip");
    if let Some(netns) = netns {
        ip.args(["-n", netns]);
    }
    ip.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = ip.spawn().context("cannot run ip")?;
    child.stdin.take().context("ip has no standard input")?.write_all(lines.join("\n").as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ip failed: {}\nin:\n{}", String::from_utf8_lossy(&output.stderr).trim(), lines.join("\n"));
    }
    Ok(())
}

/// Asks `done` every 20 ms until it answers yes; an error after `timeout`.
pub fn wait_until(what: &str, timeout: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !done()? {
        if begin.elapsed() > timeout {
            bail!("{what}: not so after {} s", timeout.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn describe(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
