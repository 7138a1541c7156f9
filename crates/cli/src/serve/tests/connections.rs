//! Connections that send nothing, or whose reader is gone.

use super::{Setup, chat, start, until, with};
use crate::serve::connections::Bounds;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn who_leaves_or_does_not_read_holds_no_one_up() {
    let s = start(None, 64);
    let endless = with(chat("endless"), json!({"stream": true})).to_string();
    let mut leaves = s.send("POST", "/v1/chat/completions", "", endless.as_bytes());
    leaves.read_exact(&mut [0; 300]).unwrap();
    drop(leaves);
    until(|| s.cancelled.load(Ordering::Relaxed) == 1);
    // one that waits for a whole answer leaves too
    let whole = chat("endless").to_string();
    let leaves = s.send("POST", "/v1/chat/completions", "", whole.as_bytes());
    until(|| s.worker.gauges().running == 1);
    drop(leaves);
    until(|| s.cancelled.load(Ordering::Relaxed) == 2);
    // this one stays and reads nothing; what the system holds for it is small, or it would hold the whole answer
    let socket = s.runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        socket.connect(s.address).await?.into_std()
    });
    let socket = socket.unwrap();
    socket.set_nonblocking(false).unwrap();
    let stays = s.send_by(socket, "POST", "/v1/chat/completions", "", endless.as_bytes());
    until(|| s.worker.gauges().running == 1);
    assert_eq!(s.post("/v1/chat/completions", &chat("hi")).0, 200);
    until(|| s.worker.shared.slow.load(Ordering::Relaxed) == 1 && s.worker.gauges().running == 0);
    drop(stays);
}

#[test]
fn connections_that_send_nothing_lock_no_one_out() {
    let s = Setup { bounds: Bounds { most: Some(8), header: Duration::from_secs(3) }, ..Setup::default() }
        .start();
    let endless = with(chat("endless"), json!({"stream": true})).to_string();
    let mut works = s.send("POST", "/v1/chat/completions", "", endless.as_bytes());
    works.read_exact(&mut [0; 200]).unwrap();
    let begun = Instant::now();
    let idle: Vec<TcpStream> = (0..30)
        .map(|i| {
            let mut socket = TcpStream::connect(s.address).unwrap();
            if i % 2 == 0 {
                socket.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nX: ").unwrap();
            }
            socket
        })
        .collect();
    assert_eq!(s.ask("GET", "/health", "", b"").0, 200);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    // what has a request under way goes on
    works.read_exact(&mut [0; 2000]).unwrap();
    // a header that does not come ends the connection
    for mut socket in idle {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut rest = vec![];
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{:?}", String::from_utf8_lossy(&rest));
    }
    drop(works);
}

#[test]
fn half_a_header_does_not_hold_the_end_up() {
    let s = start(None, 16);
    let mut half = TcpStream::connect(s.address).unwrap();
    half.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n").unwrap();
    let mut kept = TcpStream::connect(s.address).unwrap();
    kept.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    kept.read_exact(&mut [0; 20]).unwrap();
    let body = with(chat("endless"), json!({"stream": true, "max_tokens": 1000})).to_string();
    let mut asked = s.send("POST", "/v1/chat/completions", "", body.as_bytes());
    asked.read_exact(&mut [0; 200]).unwrap();
    s.stop.send_replace(true);
    let begun = Instant::now();
    let mut whole = vec![];
    asked.read_to_end(&mut whole).unwrap();
    assert!(String::from_utf8_lossy(&whole).contains("[DONE]"), "an answer under way goes on to its end");
    for mut socket in [half, kept] {
        let _ = socket.read_to_end(&mut vec![]);
    }
    until(|| s.stop.receiver_count() == 0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
