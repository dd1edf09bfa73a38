//! Several futures at once.

use std::future::{IntoFuture, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::tasks::Tasks;

/// The output of whichever future finished first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first future's output.
    Left(A),
    /// The second future's output.
    Right(B),
}

/// Waits for both futures.
pub async fn join<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a.into_future()), pin!(b.into_future()));
    let (mut a_output, mut b_output) = (None, None);
    poll_fn(|context| {
        if a_output.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(context)
        {
            a_output = Some(output);
        }
        if b_output.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(context)
        {
            b_output = Some(output);
        }
        match (a_output.take(), b_output.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (a_output, b_output) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// Waits for all futures. The outputs are in the order of the futures, whichever finished first.
pub async fn join_all<I>(futures: I) -> Vec<<I::Item as IntoFuture>::Output>
where
    I: IntoIterator<Item: IntoFuture>,
{
    let mut tasks = Tasks::new();
    for future in futures {
        tasks.push(future.into_future());
    }
    let mut outputs: Vec<_> = (0..tasks.left()).map(|_| None).collect();
    poll_fn(|context| {
        while let Poll::Ready(done) = tasks.poll_next(context) {
            match done {
                Some((index, output)) => outputs[index] = Some(output),
                None => return Poll::Ready(()),
            }
        }
        Poll::Pending
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Waits for all futures, or for the first error: the others are then dropped.
///
/// # Errors
/// Returns the first error to occur.
pub async fn try_join_all<I, T, E>(futures: I) -> Result<Vec<T>, E>
where
    I: IntoIterator<Item: IntoFuture<Output = Result<T, E>>>,
{
    try_map(usize::MAX, futures, |future| future).await
}

/// Makes a future of each item, runs at most `limit` at a time, and returns all outputs in order.
///
/// # Errors
/// Returns the first error to occur. The others are then dropped.
pub async fn try_map<I, F, T, E>(limit: usize, items: I, mut make: impl FnMut(I::Item) -> F) -> Result<Vec<T>, E>
where
    I: IntoIterator,
    F: IntoFuture<Output = Result<T, E>>,
{
    let mut items = items.into_iter();
    let mut tasks = Tasks::new();
    let mut outputs = Vec::new();
    poll_fn(|context| {
        loop {
            while tasks.left() < limit.max(1) {
                let Some(item) = items.next() else { break };
                tasks.push(make(item).into_future());
                outputs.push(None);
            }
            match tasks.poll_next(context) {
                Poll::Ready(Some((index, output))) => match output {
                    Ok(output) => outputs[index] = Some(output),
                    Err(error) => return Poll::Ready(Err(error)),
                },
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await?;
    Ok(outputs.into_iter().flatten().collect())
}

/// Waits for the first of two futures, and drops the other. If both are done, the first one counts.
pub async fn select<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a.into_future()), pin!(b.into_future()));
    poll_fn(|context| {
        if let Poll::Ready(output) = a.as_mut().poll(context) {
            return Poll::Ready(Either::Left(output));
        }
        b.as_mut().poll(context).map(Either::Right)
    })
    .await
}

/// Waits for the first, returns its index and output, and drops the others. Waits forever for none.
pub async fn select_all<I>(futures: I) -> (usize, <I::Item as IntoFuture>::Output)
where
    I: IntoIterator<Item: IntoFuture>,
{
    let mut tasks = Tasks::new();
    for future in futures {
        tasks.push(future.into_future());
    }
    poll_fn(|context| match tasks.poll_next(context) {
        Poll::Ready(Some(done)) => Poll::Ready(done),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    })
    .await
}
