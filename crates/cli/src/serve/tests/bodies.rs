//! Bodies that are too large, or come too slowly.

use super::{Server, Setup, chat, start};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LARGE: usize = 100 << 20;

/// What a client sees that writes all of a body before it reads, as Python's does.
fn write_all(s: &Server, path: &str, header: &str, is_chunked: bool) -> String {
    let mut socket = TcpStream::connect(s.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length =
        if is_chunked { "transfer-encoding: chunked".into() } else { format!("content-length: {LARGE}") };
    write!(socket, "POST {path} HTTP/1.1\r\nhost: x\r\n{header}{length}\r\n\r\n").unwrap();
    let piece = vec![b' '; 1 << 20];
    for _ in 0..LARGE / piece.len() {
        if is_chunked {
            write!(socket, "{:x}\r\n", piece.len()).unwrap();
        }
        socket.write_all(&piece).unwrap();
        if is_chunked {
            socket.write_all(b"\r\n").unwrap();
        }
    }
    if is_chunked {
        socket.write_all(b"0\r\n\r\n").unwrap();
    }
    let mut said = vec![0; 4096];
    let n = socket.read(&mut said).unwrap();
    String::from_utf8_lossy(&said[..n]).into_owned()
}

#[test]
fn who_writes_all_of_a_body_that_is_too_large_hears_so() {
    let s = start(None, 16);
    for is_chunked in [false, true] {
        let said = write_all(&s, "/v1/chat/completions", "", is_chunked);
        assert!(said.starts_with("HTTP/1.1 413") && said.contains("larger than"), "{is_chunked} {said}");
    }
    // so does who is refused for anything else before the body is read
    let said = write_all(&s, "/nowhere", "", false);
    assert!(said.starts_with("HTTP/1.1 404"), "{said}");
    let s = start(Some("secret"), 16);
    assert!(write_all(&s, "/v1/completions", "", true).starts_with("HTTP/1.1 401"));
    // one that asks first is told not to send any of it
    let mut asks = TcpStream::connect(s.address).unwrap();
    asks.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {LARGE}\r\n\r\n"
    );
    asks.write_all(head.as_bytes()).unwrap();
    let mut said = String::new();
    asks.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 401"), "{said}");
}

#[test]
fn a_body_that_drips_ends_in_time_and_holds_no_one_up() {
    let s = Setup { body_time: Duration::from_secs(2), ..Setup::default() }.start();
    let mut slow = TcpStream::connect(s.address).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    slow.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n").unwrap();
    let begun = Instant::now();
    let (mut said, mut answers) = (vec![0; 4096], 0);
    let n = loop {
        slow.write_all(b" ").unwrap();
        match slow.read(&mut said) {
            Ok(n) => break n,
            Err(_) => assert!(begun.elapsed() < Duration::from_secs(20), "it does not end"),
        }
        assert_eq!(s.post("/v1/chat/completions", &chat("hi")).0, 200);
        answers += 1;
    };
    let said = String::from_utf8_lossy(&said[..n]);
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert!(begun.elapsed() >= Duration::from_secs(2) && answers > 2, "{:?} {answers}", begun.elapsed());
}
