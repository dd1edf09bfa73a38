//! The commands of a page in a shell, and the server that some of them ask.

use super::super::{cache, root};
use super::page::Page;
use regex::Regex;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command that a page has where it wants a server. It is not run: the test is the server.
const SERVER: &str = "python3 -m http.server 8000";
const PORT: &str = "8000";
/// Where `wfhost serve` listens on the pages. Each page has a port of its own instead.
const SERVICE_PORT: &str = "7007";
/// Begins the output of each command.
const MARK: char = '\u{1}';

/// A shell as the pages suppose it: after a command in the background a person takes a moment to
/// read.
const PRELUDE: &str = r#"
settle() {
    local before= now same=0
    for _ in $(seq 600); do
        kill -0 "$!" 2>/dev/null || return 0
        now=$(wfhost ps 2>/dev/null | grep " waiting  *$! ")
        if [ -n "$now" ] && [ "$now" = "$before" ]; then same=$((same + 1)); else same=0; fi
        [ "$same" -lt 5 ] || return 0
        before=$now
        command sleep 0.2
    done
}
sleep() { [ -z "$!" ] || settle; command sleep "$1"; }
ready() { for _ in $(seq 600); do curl -sf "localhost:$1/readyz" >/dev/null && return; command sleep 0.1; done; }
"#;

/// A folder as a page finds it: with the examples of the repository, which ask the server at this
/// port.
pub(super) fn folder(port: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("guests"), folder.path().join("guests")).unwrap();
    copy(&root().join("workflows"), &folder.path().join("workflows"), port);
    std::fs::copy(root().join("guests/built/hello.wasm"), folder.path().join("hello.wasm")).unwrap();
    folder
}

fn copy(from: &Path, to: &Path, port: &str) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to, port);
        } else {
            std::fs::write(to, std::fs::read_to_string(from).unwrap().replace(PORT, port)).unwrap();
        }
    }
}

/// What each command of the page prints.
pub(super) fn run(page: &Page) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = &listener.local_addr().unwrap().port().to_string();
    // No other page takes it: the system gives no port twice in such a time.
    let service = &TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let folder = folder(port);
    if let Some(below) = page.commands().iter().find_map(|command| served(&command.text)) {
        let below = folder.path().join(below);
        std::thread::spawn(move || serve(&listener, &below));
    }
    let home = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_wfhost"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("timeout");
    bash.args(["--kill-after=5", "120", "bash", "-c", &script(page, port, service)]).current_dir(folder.path());
    for (name, _) in std::env::vars() {
        if name.starts_with("WFHOST_") || name.starts_with("XDG_") || name == "NO_COLOR" {
            bash.env_remove(name);
        }
    }
    bash.env("PATH", path).env("HOME", home.path()).env("WFHOST_CACHE", cache()).stdin(Stdio::null());
    let output = bash.output().unwrap();
    // What the shell says of its jobs is not shown.
    let job = Regex::new(r"(?m)^bash: line \d+: +\d+ (Killed|Terminated) .*\n").unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let parts = text.split(MARK).skip(1);
    let tidied = |part: &str| {
        let part = job.replace_all(part, "").replace(&folder.path().display().to_string(), "/home/ann/demo");
        let part = part.replace(&home.path().display().to_string(), "/home/ann");
        part.replace(service, SERVICE_PORT).replace(port, PORT).trim_end().to_owned()
    };
    // What jobs say when they are ended is not shown.
    parts.take(page.commands().len()).map(tidied).collect()
}

/// The files that the page names, and its commands, in their order.
fn script(page: &Page, port: &str, service: &str) -> String {
    let own = |text: &str| {
        let text = text.replace(PORT, port).replace(SERVICE_PORT, service);
        text.replace("wfhost serve ", &format!("wfhost serve --listen 127.0.0.1:{service} "))
    };
    let mut script = format!("exec 2>&1\n{PRELUDE}");
    for block in &page.blocks {
        if let Some(name) = block.name().filter(|_| block.is_written() && block.file().is_none()) {
            let text = own(&block.text);
            let name = name.replacen("~/", "$HOME/", 1);
            let _ = writeln!(script, "mkdir -p \"$(dirname {name})\"; cat > \"{name}\" <<'__END__'\n{text}__END__");
        }
        if !block.is_session() {
            continue;
        }
        for command in page.commands_of(block) {
            let _ = writeln!(script, "__status=$?; printf '{MARK}'; (exit $__status)");
            let (text, is_server) = (own(&command.text), served(&command.text).is_some());
            let text = if is_server { "command sleep 300 &" } else { text.as_str() };
            let _ = writeln!(script, "{text}");
            if text.starts_with("wfhost serve ") {
                let _ = writeln!(script, "ready {service}");
            } else if text.ends_with('&') && !is_server {
                script += "settle\n";
            }
            if text.starts_with("kill -9 $!") {
                script += "wait $! 2>/dev/null\n";
            }
        }
    }
    script + &format!("printf '{MARK}'; kill $(jobs -p) 2>/dev/null\n")
}

/// The folder whose files such a command serves.
fn served(command: &str) -> Option<PathBuf> {
    let arguments = command.strip_prefix(SERVER)?.split_whitespace();
    let mut after = arguments.skip_while(|word| *word != "--directory").skip(1);
    Some(after.next().unwrap_or(".").into())
}

fn serve(listener: &TcpListener, below: &Path) {
    for stream in listener.incoming() {
        // Whoever hangs up before the answer has no need of it.
        let _ = answer(stream.unwrap(), below);
    }
}

/// Answers as Python's server does: files by their path, anything else is not found.
fn answer(mut stream: TcpStream, below: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    let line = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let file = below.join(path.trim_start_matches('/'));
    let (status, body) = match (method, std::fs::read(&file)) {
        ("GET", Ok(bytes)) => ("200 OK", bytes),
        ("GET", Err(_)) if file.is_dir() => ("200 OK", b"<!DOCTYPE HTML>".to_vec()),
        ("GET", Err(_)) => ("404 File not found", b"<!DOCTYPE HTML>".to_vec()),
        _ => ("501 Unsupported method", Vec::new()),
    };
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    let media_type = if is_json { "application/json" } else { "text/html" };
    let head = format!("HTTP/1.0 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n").as_bytes())?;
    stream.write_all(&body)
}
