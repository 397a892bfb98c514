//! A TCP proxy in front of the server that injects connection faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The next fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    /// Forward everything.
    None,
    /// Forward the next write of an event to the server, and nothing back from then on.
    LoseTheAnswerToAWrite,
    /// Disconnect when the next transaction begins, before the server receives it.
    CutAtBegin,
    /// Disconnect on any traffic.
    CutAlways,
    /// Disconnect when a table is about to be loaded.
    CutAtCopy,
    /// Disconnect when the tables are about to be swapped.
    CutAtSwap,
    /// Forward the swap of the tables, and nothing back from then on.
    LoseTheAnswerToASwap,
}

const FAULTS: [Fault; 7] = [
    Fault::None,
    Fault::LoseTheAnswerToAWrite,
    Fault::CutAtBegin,
    Fault::CutAlways,
    Fault::CutAtCopy,
    Fault::CutAtSwap,
    Fault::LoseTheAnswerToASwap,
];

pub(crate) struct Proxy {
    port: u16,
    fault: Arc<AtomicU8>,
    wires: Arc<parking_lot::Mutex<Vec<CancellationToken>>>,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (fault, wires) = (Arc::new(AtomicU8::new(0)), Arc::<parking_lot::Mutex<Vec<_>>>::default());
        let (armed, cut) = (Arc::clone(&fault), Arc::clone(&wires));
        let tasks = TaskTracker::new();
        tasks.clone().spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let (broken, silent) = (CancellationToken::new(), CancellationToken::new());
                cut.lock().push(broken.clone());
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                let up = upwards(from_client, to_server, Arc::clone(&armed), silent.clone());
                let down = downwards(from_server, to_client, silent);
                tasks.spawn(broken.run_until_cancelled_owned(async { tokio::join!(up, down) }));
            }
        });
        Self { port, fault, wires }
    }

    /// The URL of the server through the proxy.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?fsync=off", self.port)
    }

    pub(crate) fn arm(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.fault.load(Ordering::SeqCst) != Fault::None as u8
    }

    /// Closes every connection.
    pub(crate) fn cut(&self) {
        self.wires.lock().drain(..).for_each(|wire| wire.cancel());
    }
}

async fn upwards(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, armed: Arc<AtomicU8>, silent: CancellationToken) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let says = |word: &[u8]| bytes[..count].windows(word.len()).any(|window| window == word);
        match FAULTS[usize::from(armed.load(Ordering::SeqCst))] {
            Fault::LoseTheAnswerToAWrite if says(b"\"seq\":") => {
                silent.cancel();
                armed.store(0, Ordering::SeqCst);
            }
            Fault::CutAtBegin if says(b"BEGIN\0") => {
                armed.store(0, Ordering::SeqCst);
                return;
            }
            Fault::CutAtCopy if says(b"COPY fleet_events") => {
                armed.store(0, Ordering::SeqCst);
                return;
            }
            Fault::LoseTheAnswerToASwap if says(b"SET SCHEMA") => {
                silent.cancel();
                armed.store(0, Ordering::SeqCst);
            }
            Fault::CutAtSwap if says(b"SET SCHEMA") => {
                armed.store(0, Ordering::SeqCst);
                return;
            }
            Fault::CutAlways => return,
            _ => {}
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn downwards(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, silent: CancellationToken) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if silent.is_cancelled() {
            // The other end stays open, as after a cable is cut.
            continue;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
