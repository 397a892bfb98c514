//! Futures that run to completion even if their waiter is dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use coordinator::Purpose;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// A future that always completes: dropped half-way, it continues as a task of its own. While it is awaited, it costs
/// no task.
pub(crate) struct RunToCompletion<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    tasks: TaskTracker,
}

impl<T: Send + 'static> RunToCompletion<T> {
    /// `work`, which becomes one of `tasks` when it is dropped early.
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static, tasks: TaskTracker) -> Self {
        Self { work: Some(Box::pin(work)), tasks }
    }
}

impl<T: Send + 'static> Future for RunToCompletion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for RunToCompletion<T> {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and so does the work.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            // It still counts under the purpose of its request.
            self.tasks.spawn_on(Purpose::current().scope(work), &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_dropped_future_still_completes() {
        let (go, gone) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let tasks = TaskTracker::new();
        let mut work = Box::pin(RunToCompletion::new(
            async move {
                let _ = gone.await;
                let _ = done.send(7);
            },
            tasks.clone(),
        ));

        assert!(futures_util::poll!(&mut work).is_pending());
        let while_awaited = tasks.len();
        drop(work);
        go.send(()).unwrap();

        assert_eq!(ended.await, Ok(7));
        assert_eq!(while_awaited, 0);
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn a_finished_future_leaves_no_task() {
        let tasks = TaskTracker::new();

        assert_eq!(RunToCompletion::new(async { 7 }, tasks.clone()).await, 7);
        assert_eq!(tasks.len(), 0);
    }
}
