//! Orders about a zone, or about a zone and its reverse zones.

use std::io;

use provenance::Operator;

use crate::error::{AuditError, Output};
use crate::order::{ZoneOrder, carry_out, with_reason};
use crate::past::{Order, Past};

/// Carries out the orders, and writes the results. One that fails does not stop the others.
///
/// # Errors
/// When a zone needs a reason, and nothing was done; or the first failure, after all were tried.
pub(super) fn carry_out_all(
    past: &dyn Past,
    mut orders: Vec<ZoneOrder>,
    (operator, reason): (&Operator, Option<&str>),
    output: Output,
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    if let [first, _, ..] = &orders[..]
        && first.order == Order::Release
    {
        keep_held(past, &mut orders);
    }
    let orders = orders.into_iter().map(|order| {
        let by = with_reason(past, &order.zone, operator, reason)?;
        Ok((order, by))
    });
    let orders: Vec<_> = orders.collect::<Result<_, AuditError>>()?;
    let done = orders
        .iter()
        .map(|(order, by)| carry_out(past, order, by, output, out));
    // All of them are tried.
    let done: Vec<_> = done.collect();
    done.into_iter().collect()
}

/// Leaves out zones of which nothing is held, unless that is all of them.
fn keep_held(past: &dyn Past, orders: &mut Vec<ZoneOrder>) {
    let Some(status) = past.status() else { return };
    let is_held = |order: &ZoneOrder| {
        let zone = order.zone.to_string();
        let line = status.zones.iter().find(|line| line.zone == zone);
        line.is_some_and(|line| line.held.is_some() || line.order.is_some())
    };
    if orders.iter().any(is_held) {
        orders.retain(is_held);
    } else {
        orders.truncate(1);
    }
}
