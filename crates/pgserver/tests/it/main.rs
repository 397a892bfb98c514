//! Starts, stops and kills a real server.

use std::net::TcpStream;

use pgserver::{Flushes, Server, for_test};

fn answers(server: &Server) -> bool {
    TcpStream::connect(("127.0.0.1", server.port())).is_ok()
}

#[test]
fn a_stopped_or_killed_server_restarts_on_its_port() {
    let Some(mut server) = for_test(Flushes::None).unwrap() else { return };
    let url = server.url();
    let mut seen = vec![answers(&server)];

    server.stop();
    seen.push(answers(&server));
    server.start().unwrap();
    seen.push(answers(&server));
    server.kill();
    seen.push(answers(&server));
    server.start().unwrap();
    seen.push(answers(&server));

    assert_eq!(seen, [true, false, true, false, true]);
    assert_eq!(server.url(), url);
}

#[test]
fn servers_run_in_parallel_and_stop_when_dropped() {
    let (Some(one), Some(two)) = (for_test(Flushes::None).unwrap(), for_test(Flushes::Real).unwrap()) else { return };
    let port = one.port();

    drop(one);

    assert!(answers(&two));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}
