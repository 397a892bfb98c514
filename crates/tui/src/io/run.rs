//! The loop: messages to the model, effects from it, and the screen.

use std::io::{self, BufWriter, Stdout};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, clean_line};
use ratatui::crossterm::event::{Event, read};
use ratatui::layout::Rect;
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::current_client::CurrentClient;
use super::fetch::Fetcher;
use super::follow::Follower;
use super::screen::Screen;
use super::terminal::Terminal;
use super::{Dashboard, FolderSource, act, logs};
use crate::message::{Deed, Effect, Msg};
use crate::model::{Filter, Model, Setup};
use crate::update::{next_clock, update};

/// Messages that wait: a stream that is faster than the screen waits with them.
const MESSAGES_MAX: usize = 1_024;

/// Shows the dashboard until the user leaves it or a signal ends it. The terminal is then as it was.
pub async fn run(dashboard: Dashboard) -> io::Result<()> {
    let stop = CancellationToken::new();
    let terminal = Terminal::enter(stop.clone())?;
    let (news, messages) = mpsc::channel(MESSAGES_MAX);
    let looper = Loop::start(dashboard, terminal, news, stop)?;
    looper.run(messages).await
}

struct Loop {
    model: Model,
    terminal: Terminal,
    screen: Screen<BufWriter<Stdout>>,
    clock: Arc<dyn Clock>,
    fetcher: Fetcher,
    client: CurrentClient,
    folder: Option<Arc<dyn FolderSource>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    news: mpsc::Sender<Msg>,
    hurry: Arc<Notify>,
    log: CancellationToken,
    draw_every: Duration,
    drawn_at: Option<Duration>,
    is_over: bool,
}

/// The signals that end a program.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Loop {
    fn start(
        dashboard: Dashboard,
        terminal: Terminal,
        news: mpsc::Sender<Msg>,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        let Dashboard { look, draws_per_second, connect, product, folder, clock, entropy } = dashboard;
        let size = ratatui::crossterm::terminal::size()?;
        let (dir, folder) = folder.map_or((None, None), |(dir, source)| (Some(dir), Some(source)));
        let mut model = Model::new(Setup { look, size, now: clock.now(), folder: dir });
        if let Some(product) = product {
            model.jobs.filter = Filter::new(&format!("product={product}"));
        }
        let (tasks, hurry) = (TaskTracker::new(), Arc::new(Notify::new()));
        let client = CurrentClient::new(connect);
        let fetcher = Fetcher::new(client.clone(), tasks.clone(), news.clone());
        let follower = Follower {
            client: client.clone(),
            news: news.clone(),
            clock: Arc::clone(&clock),
            entropy,
            hurry: Arc::clone(&hurry),
        };
        tasks.spawn(stop.clone().run_until_cancelled_owned(follower.follow()));
        read_keys(news.clone())?;
        Ok(Self {
            model,
            terminal,
            screen: Screen::new(BufWriter::new(io::stdout())),
            clock,
            fetcher,
            client,
            folder,
            tasks,
            log: stop.child_token(),
            stop,
            news,
            hurry,
            draw_every: Duration::from_secs(1) / draws_per_second.max(1),
            drawn_at: None,
            is_over: false,
        })
    }

    async fn run(mut self, mut messages: mpsc::Receiver<Msg>) -> io::Result<()> {
        let mut ends = Ends {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        };
        if self.folder.is_some() {
            self.list_folder();
        }
        self.screen.draw(&self.model)?;
        let mut has_changed = false;
        while !self.is_over {
            let draw_in = has_changed.then(|| self.until_draw());
            let wait = [draw_in, next_clock(&self.model)].into_iter().flatten().min();
            tokio::select! {
                msg = messages.recv() => {
                    let Some(msg) = msg else { break };
                    self.take(msg)?;
                    // Only as many as can wait at once: a busy fleet must not keep the screen from being drawn.
                    for _ in 0..MESSAGES_MAX {
                        match messages.try_recv() {
                            Ok(msg) if !self.is_over => self.take(msg)?,
                            _ => break,
                        }
                    }
                }
                () = sleep(&*self.clock, wait) => self.take(Msg::Clock(self.clock.now()))?,
                () = ends.next() => break,
                () = self.stop.cancelled() => return Err(io::Error::other("a part of the dashboard failed")),
            }
            has_changed = true;
            if self.until_draw().is_zero() {
                self.screen.draw(&self.model)?;
                self.drawn_at = Some(self.clock.monotonic());
                has_changed = false;
            }
        }
        self.stop.cancel();
        drop(self.terminal);
        Ok(())
    }

    fn until_draw(&self) -> Duration {
        self.drawn_at.map_or(Duration::ZERO, |at| (at + self.draw_every).saturating_sub(self.clock.monotonic()))
    }

    fn take(&mut self, msg: Msg) -> io::Result<()> {
        let mut effects = update(&mut self.model, Msg::Clock(self.clock.now()));
        if !matches!(msg, Msg::Clock(_)) {
            effects.extend(update(&mut self.model, msg));
        }
        effects.into_iter().try_for_each(|effect| self.perform(effect))
    }

    fn perform(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::Read(request) => self.fetcher.read(request),
            Effect::Act(deed) => self.act(deed),
            Effect::OpenLog { job, opening } => {
                self.close_log();
                if let Ok(client) = self.client.get() {
                    let reading = logs::follow(client, job, opening, self.news.clone());
                    self.tasks.spawn(self.log.clone().run_until_cancelled_owned(reading));
                }
            }
            Effect::CloseLog => self.close_log(),
            Effect::Copy(text) => self.screen.copy(&text)?,
            Effect::Browse(url) => self.browse(&url),
            Effect::Reconnect => self.hurry.notify_one(),
            Effect::ListFolder => self.list_folder(),
            Effect::Suspend => {
                self.terminal.suspend()?;
                self.model.size = ratatui::crossterm::terminal::size()?;
                self.redraw();
            }
            Effect::Redraw => self.redraw(),
            Effect::Quit => self.is_over = true,
        }
        Ok(())
    }

    fn redraw(&mut self) {
        let (width, height) = self.model.size;
        self.screen.forget(Rect::new(0, 0, width, height));
    }

    fn close_log(&mut self) {
        self.log.cancel();
        self.log = self.stop.child_token();
    }

    fn act(&self, deed: Deed) {
        let (client, news) = (self.client.get(), self.news.clone());
        self.tasks.spawn(async move {
            let msg = match client {
                Ok(client) => Msg::Acted(act::act(&client, deed).await),
                Err(error) => Msg::Note(error.text().to_owned()),
            };
            let _ = news.send(msg).await;
        });
    }

    /// A directory is read beside the loop: it may be on a slow disk.
    fn list_folder(&self) {
        let Some(folder) = self.folder.clone() else { return };
        let news = self.news.clone();
        self.tasks.spawn_blocking(move || {
            let _ = news.blocking_send(Msg::Folder(folder.list()));
        });
    }

    /// Opens the user's browser, or shows the address where there is none.
    fn browse(&mut self, url: &str) {
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let opener = std::env::var_os("BROWSER").unwrap_or_else(|| opener.into());
        let is_remote = std::env::var_os("SSH_CONNECTION").is_some();
        let started = (!is_remote).then(|| {
            let mut command = Command::new(opener);
            command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        });
        let text = match started {
            Some(Ok(_)) => format!("opened {url}"),
            Some(Err(_)) | None => format!("open {url}"),
        };
        self.model.tell(clean_line(&text));
    }
}

impl Ends {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Sleeps, or for ever without a time.
async fn sleep(clock: &dyn Clock, time: Option<Duration>) {
    match time {
        Some(time) => clock.sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Keys are read by a thread: a read of the terminal cannot be called off. It ends with the process.
fn read_keys(news: mpsc::Sender<Msg>) -> io::Result<()> {
    let keys = move || {
        loop {
            let msg = match read() {
                Ok(Event::Key(key)) => Msg::Key(key),
                Ok(Event::Paste(text)) => Msg::Paste(text),
                Ok(Event::Resize(width, height)) => Msg::Resize(width, height),
                Ok(_) => continue,
                Err(_) => return,
            };
            if news.blocking_send(msg).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(keys).map(drop)
}
