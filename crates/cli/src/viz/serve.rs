//! The page on localhost: the files of the page and ranges of one pack, for whoever has the token.
//!
//! It listens on the loopback address only, answers only requests whose `Host` is that address, and only below a path that
//! holds a random token: another page in the browser can neither guess it nor read an answer.

use frit_viz::page;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Longest line of a request, and most of them.
const LONGEST: u64 = 8192;
const MOST_LINES: usize = 100;

/// What is served, and to whom.
struct Site {
    pack: Vec<u8>,
    token: String,
    port: u16,
}

/// Serve a pack until the process ends; `ready` is told the address.
pub fn serve(pack: Vec<u8>, port: u16, ready: impl FnOnce(&str)) -> Result<(), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|e| format!("port {port}: {e}"))?;
    let port = listener.local_addr().map_err(|e| e.to_string())?.port();
    let site = Arc::new(Site { pack, token: token(), port });
    ready(&format!("http://127.0.0.1:{port}/{}/", site.token));
    for stream in listener.incoming().flatten() {
        let site = site.clone();
        std::thread::spawn(move || _ = talk(&site, stream));
    }
    Ok(())
}

/// What cannot be guessed: two numbers from the system's source of keys for hash tables.
fn token() -> String {
    let number = || {
        let mut hasher = std::hash::RandomState::new().build_hasher();
        hasher.write_u64(std::process::id().into());
        hasher.finish()
    };
    format!("{:016x}{:016x}", number(), number())
}

/// A request as far as it matters.
#[derive(Default)]
struct Request {
    method: String,
    path: String,
    host: String,
    range: Option<String>,
}

fn talk(site: &Site, stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(request) = read_request(&mut reader)? {
        answer(site, &request, &mut writer)?;
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut request = Request::default();
    for i in 0..MOST_LINES {
        let mut line = String::new();
        if reader.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if i == 0 {
            let mut words = line.split(' ');
            request.method = words.next().unwrap_or("").into();
            request.path = words.next().unwrap_or("").into();
            continue;
        }
        if line.is_empty() {
            return Ok(Some(request));
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "host" => request.host = value.trim().into(),
            "range" => request.range = Some(value.trim().into()),
            _ => {}
        }
    }
    Ok(None)
}

fn answer(site: &Site, request: &Request, out: &mut TcpStream) -> std::io::Result<()> {
    let hosts = [format!("127.0.0.1:{}", site.port), format!("localhost:{}", site.port)];
    if !hosts.contains(&request.host) {
        return reply(out, "403 Forbidden", "text/plain", "", b"this server answers 127.0.0.1 only");
    }
    if request.method != "GET" {
        return reply(out, "405 Method Not Allowed", "text/plain", "", b"");
    }
    let below = request.path.strip_prefix('/').and_then(|p| p.strip_prefix(site.token.as_str()));
    let name = match below.and_then(|p| p.strip_prefix('/')) {
        Some("") => "index.html",
        Some(name) => name.split('?').next().unwrap_or(""),
        None => {
            return reply(
                out,
                "404 Not Found",
                "text/plain",
                "",
                b"the address has no token, or another one",
            );
        }
    };
    if name == "pack" {
        return match request.range.as_deref().map(|r| range(r, site.pack.len())) {
            Some(Some((from, to))) => {
                let header = format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, site.pack.len());
                reply(out, "206 Partial Content", "application/octet-stream", &header, &site.pack[from..to])
            }
            Some(None) => reply(out, "416 Range Not Satisfiable", "text/plain", "", b""),
            None => reply(out, "200 OK", "application/octet-stream", "", &site.pack),
        };
    }
    match page::file(name) {
        Some((kind, text)) => reply(out, "200 OK", kind, "", text.as_bytes()),
        None => reply(out, "404 Not Found", "text/plain", "", b"there is no such file"),
    }
}

/// The bytes that `bytes=from-to` names, if there are some.
fn range(text: &str, len: usize) -> Option<(usize, usize)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let from: usize = from.parse().ok()?;
    let to = if to.is_empty() { len } else { to.parse::<usize>().ok()?.saturating_add(1).min(len) };
    (from < to).then_some((from, to))
}

fn reply(out: &mut TcpStream, status: &str, kind: &str, more: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nContent-Security-Policy: {}\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nAccept-Ranges: bytes\r\n{more}\r\n",
        body.len(),
        page::POLICY
    );
    out.write_all(head.as_bytes())?;
    out.write_all(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_inside() {
        assert_eq!(range("bytes=0-3", 10), Some((0, 4)));
        assert_eq!(range("bytes=8-99", 10), Some((8, 10)));
        assert_eq!(range("bytes=4-", 10), Some((4, 10)));
        for bad in
            ["bytes=10-12", "bytes=5-2", "bytes=-3", "bytes=a-b", "lines=1-2", "bytes=18446744073709551615-"]
        {
            assert_eq!(range(bad, 10), None, "{bad}");
        }
    }
    #[test]
    fn tokens_are_long_and_differ() {
        assert_eq!(token().len(), 32);
        assert_ne!(token(), token());
    }
}
