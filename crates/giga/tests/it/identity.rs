//! A data directory stands for its own coordinator: no other process gets its token.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use crate::giga::Machine;

#[test]
fn the_token_of_a_stopped_coordinator_is_not_sent_anywhere() {
    let machine = Machine::new();
    machine.write("admin.token", "giga_adm_secret");
    let data = machine.path().to_str().unwrap();

    let ran = machine.giga_with(&["jobs", "--data", data], &[("GIGA_API", "http://127.0.0.1:1")], "");

    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("no coordinator is running on the data directory"), "{}", ran.stderr);
}

#[test]
fn a_process_at_the_address_of_a_killed_coordinator_does_not_get_its_token() {
    let machine = Machine::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    machine.write("admin.token", "giga_adm_secret");
    machine.write("endpoint", &format!("http://{}", listener.local_addr().unwrap()));
    let data = machine.path().to_str().unwrap().to_owned();

    let impostor = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while !heard.ends_with(b"}") {
            let count = connection.read(&mut buffer).unwrap();
            assert_ne!(count, 0);
            heard.extend_from_slice(&buffer[..count]);
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"items\":[]}";
        std::io::Write::write_all(&mut connection, answer.as_bytes()).unwrap();
        let _ = connection.read_to_end(&mut heard);
        String::from_utf8_lossy(&heard).into_owned()
    });
    let ran = machine.giga(&["jobs", "--data", &data]);
    let heard = impostor.join().unwrap();

    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("the token was not sent"), "{}", ran.stderr);
    assert!(heard.contains("/identity") && !heard.contains("giga_adm_secret"), "{heard}");
}

#[test]
fn serve_creates_nothing_before_its_settings_are_valid() {
    let machine = Machine::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    for args in [
        &["serve", "--data", "new", "--listen", "0.0.0.0:0"][..],
        &["serve", "--data", "new", "--listen", &address],
        &["serve", "--data", "new", "--listen", "127.0.0.1:0", "--tls-cert", "no.pem", "--tls-key", "no.pem"],
        &["serve", "--data", "new", "--listen", "127.0.0.1:0", "--tls-cert", "no.pem"],
    ] {
        let ran = machine.giga(args);

        assert!(ran.code.is_some_and(|code| code != 0), "{args:?}");
        assert!(!machine.path().join("new").exists(), "{args:?}: {}", ran.stderr);
    }
}
