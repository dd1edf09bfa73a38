//! A server on loopback that does what a test says, byte for byte, so that it can break every rule.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A request as the server read it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// What a server does with a request. Returns whether the connection stays open.
type Script = dyn Fn(&Seen, &mut dyn Wire) -> bool + Send + Sync;

/// A connection in plain text or under TLS.
pub(crate) trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

/// A running server. Its threads end with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// A server that does what the script says.
    pub(crate) fn start(script: impl Fn(&Seen, &mut dyn Wire) -> bool + Send + Sync + 'static) -> Self {
        Self::start_on(None, script)
    }

    /// The same server, under TLS.
    pub(crate) fn start_on(
        tls: Option<Arc<rustls::ServerConfig>>,
        script: impl Fn(&Seen, &mut dyn Wire) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (all, count, script) = (seen.clone(), connections.clone(), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let (all, script, tls) = (all.clone(), script.clone(), tls.clone());
                std::thread::spawn(move || match (stream, tls) {
                    (Ok(stream), None) => serve(stream, &all, &*script),
                    (Ok(stream), Some(tls)) => {
                        let connection = rustls::ServerConnection::new(tls).unwrap();
                        serve(rustls::StreamOwned::new(connection, stream), &all, &*script);
                    }
                    (Err(_), _) => {}
                });
            }
        });
        Self { address, seen, connections }
    }

    /// A server that answers every request with the same bytes.
    pub(crate) fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |_, wire| wire.write_all(&response).is_ok())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The same server under a name chosen by the test.
    pub(crate) fn url_as(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A response with a body.
pub(crate) fn response(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes =
        format!("HTTP/1.1 {status} Whatever\r\n{headers}content-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn serve(stream: impl Wire, all: &Mutex<Vec<Seen>>, script: &Script) {
    let mut reader = BufReader::new(stream);
    while let Some(seen) = read_request(&mut reader) {
        all.lock().unwrap().push(seen.clone());
        if !script(&seen, reader.get_mut()) {
            return;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Seen> {
    let line = read_line(reader)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { method, target, headers, body })
}

fn read_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

/// Opens once, for all that wait.
#[derive(Default)]
pub(crate) struct Door {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub(crate) fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}
