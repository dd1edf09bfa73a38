//! A closed loop of HTTP/1.1 requests over connections that stay open: each client sends its next
//! request when it has the answer to the one before. One thread, so that it takes no more than its
//! share of a small machine.
//!
//! ```text
//! load ADDRESS PATH CLIENTS SECONDS BODY EXPECTED [HEADER…]
//! ```
//! An answer that does not contain EXPECTED is an error. Warms up for a quarter of the time, unreported. Prints `rate p50 p99 p999 max errors`, times in
//! microseconds.

use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, path, clients, seconds, body, expected, headers @ ..] = &arguments[..] else {
        panic!("load ADDRESS PATH CLIENTS SECONDS BODY EXPECTED [HEADER…]");
    };
    let (clients, seconds): (usize, f64) = (clients.parse().unwrap(), seconds.parse().unwrap());
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let begin = Instant::now() + Duration::from_secs_f64(seconds / 4.0);
    let end = begin + Duration::from_secs_f64(seconds);
    let local = tokio::task::LocalSet::new();
    let tasks: Vec<_> = (0..clients)
        .map(|_| local.spawn_local(client(address.clone(), request.clone().into_bytes(), expected.clone(), begin, end)))
        .collect();
    let (mut times, mut errors) = (Vec::new(), 0);
    local
        .run_until(async {
            for task in tasks {
                let (some, failed) = task.await.unwrap();
                times.extend(some);
                errors += failed;
            }
        })
        .await;
    times.sort_unstable();
    let at = |part: f64| times.get(((times.len() as f64 * part) as usize).min(times.len().max(1) - 1)).copied().unwrap_or(0);
    let rate = times.len() as f64 / seconds;
    println!("{rate:.1} {} {} {} {} {errors}", at(0.5), at(0.99), at(0.999), at(1.0));
}

/// One client. Returns the microseconds of each request that was answered within the time, and how
/// many answers were no success.
async fn client(address: String, request: Vec<u8>, expected: String, begin: Instant, end: Instant) -> (Vec<u64>, u64) {
    let mut stream = TcpStream::connect(&address).await.expect("the server listens");
    stream.set_nodelay(true).unwrap();
    let (mut times, mut errors, mut buffer) = (Vec::new(), 0, Vec::with_capacity(16 << 10));
    loop {
        let sent = Instant::now();
        if sent >= end {
            return (times, errors);
        }
        stream.write_all(&request).await.unwrap();
        let status = answer(&mut stream, &mut buffer).await;
        let now = Instant::now();
        if status != 200 || find(&buffer, expected.as_bytes()).is_none() {
            errors += 1;
            if errors == 1 {
                eprintln!("{}", String::from_utf8_lossy(&buffer));
            }
        } else if sent >= begin && now < end {
            times.push(now.duration_since(sent).as_micros() as u64);
        }
    }
}

/// Reads an answer, whose length is given or that comes in chunks. Returns its status.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> u16 {
    buffer.clear();
    let head = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        assert!(stream.read_buf(buffer).await.unwrap() > 0, "the server closed the connection");
    };
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let status = text[9..12].parse().unwrap();
    if let Some(length) = text.split("content-length:").nth(1) {
        let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
        while buffer.len() < head + length {
            assert!(stream.read_buf(buffer).await.unwrap() > 0, "the server closed the connection");
        }
    } else if text.contains("transfer-encoding: chunked") {
        while !buffer.ends_with(b"0\r\n\r\n") {
            assert!(stream.read_buf(buffer).await.unwrap() > 0, "the server closed the connection");
        }
    }
    status
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
