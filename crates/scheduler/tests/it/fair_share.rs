//! A flood of jobs of one product leaves the others their share [S7], measured and drawn.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use domain::{JobId, Product, ProductId};
use scheduler::{Placement, WaitingJob, plan};

use crate::golden;
use crate::scenario::{Scenario, World, factory, job, name, with_shape};

const FLOOD: u32 = 10_000;
const FACTORIES: u32 = 5;
const SEATS: u32 = 20;
/// Minutes that each run takes.
const RUN: usize = 10;
/// When the small product submits its jobs, with its weight from then on, and how many.
const ARRIVALS: [(usize, u32, u32); 2] = [(30, 1, 100), (180, 3, 150)];
const MINUTES: usize = 330;

fn numbered(number: u32) -> JobId {
    let mut bytes = [0; 16];
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    JobId::from_bytes(bytes)
}

fn submit(world: &mut World, product: &str, numbers: std::ops::Range<u32>) {
    let first = with_shape(job(1, &[]), |shape| shape.product = name(product));
    for number in numbers {
        world.queue.insert(WaitingJob { job: numbered(number), ..first.clone() });
    }
}

/// The seats of each product in each minute.
fn run_fleet() -> Vec<[u32; 2]> {
    let mut factories: Vec<_> = (0..FACTORIES).map(|n| factory(&format!("f{n}"), &[])).collect();
    for state in &mut factories {
        state.factory.seat_limit = SEATS / FACTORIES;
    }
    let mut scenario = Scenario { factories, ..Scenario::default() };
    let mut ends: VecDeque<(usize, Placement)> = VecDeque::new();
    let mut used = Vec::new();
    let mut world = scenario.world();
    submit(&mut world, "bulk", 0..FLOOD);
    let mut next = FLOOD;
    for minute in 0..MINUTES {
        if let Some((_, weight, count)) = ARRIVALS.iter().find(|(at, ..)| *at == minute) {
            scenario.products = BTreeMap::from([(name("small"), weighted(*weight))]);
            world.set_products(scenario.products.clone());
            submit(&mut world, "small", next..next + count);
            next += count;
        }
        while ends.front().is_some_and(|(end, _)| *end <= minute) {
            let ended = ends.pop_front().map(|(_, placement)| placement.job);
            world.fleet.vacate(&ended.unwrap());
        }
        // Runs start apart from each other, as they do in a fleet at work.
        let free = SEATS - world.fleet.product_used(&name("bulk")) - world.fleet.product_used(&name("small"));
        let placements = plan(&world.view()).placements;
        assert_eq!(placements.len(), free as usize, "no seat stays free during a flood");
        for (at, placement) in placements.into_iter().enumerate() {
            world.carry_out(&placement);
            let spread = if minute == 0 { at % RUN } else { 0 };
            ends.push_back((minute + RUN - spread, placement));
        }
        ends.make_contiguous().sort_by_key(|(end, placement)| (*end, placement.job));
        used.push(["bulk", "small"].map(|product| world.fleet.product_used(&name::<ProductId>(product))));
    }
    used
}

fn weighted(weight: u32) -> Product {
    Product { weight, ..Product::new(name("small")) }
}

// [S7]
#[test]
fn a_flood_of_one_product_leaves_another_its_share() {
    let used = run_fleet();
    let small = |minute: usize| used[minute][1];

    assert_eq!((small(29), used[29][0]), (0, SEATS), "a product alone gets every seat");
    // Equal weights: half of the seats, as soon as the runs that were under way have ended.
    for minute in 30 + RUN..30 + 90 {
        assert_eq!(small(minute), SEATS / 2, "minute {minute}");
    }
    assert_eq!(used[170], [SEATS, 0]);
    // Weight 3 against 1: three quarters.
    for minute in 180 + RUN..180 + 90 {
        assert_eq!(small(minute), SEATS * 3 / 4, "minute {minute}");
    }
    assert_eq!(used[MINUTES - 1], [SEATS, 0]);
}

// [S7]
#[test]
fn the_plot_of_fair_shares_is_up_to_date() {
    golden::check_docs("images/fair-shares.svg", &plot(&run_fleet()));
}

/// Seats over time, as a picture for the documentation.
fn plot(used: &[[u32; 2]]) -> String {
    let (left, top, width, height) = (46.0, 34.0, 640.0, 200.0);
    let x = |minute: usize| left + width * minute as f64 / MINUTES as f64;
    let y = |seats: u32| top + height * (1.0 - f64::from(seats) / f64::from(SEATS));
    let line = |product: usize| {
        let points =
            used.iter().enumerate().map(|(minute, seats)| format!("{:.1},{:.1}", x(minute), y(seats[product])));
        points.collect::<Vec<_>>().join(" ")
    };
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 280\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Seats of two products during a flood of 10,000 jobs</title>\n\
         <rect width=\"700\" height=\"280\" fill=\"#fff\"/>\n",
    );
    for seats in (0..=SEATS).step_by(5) {
        let y = y(seats);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {y:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{seats}</text>",
            left + width,
            left - 6.0,
            y + 4.0
        );
    }
    for (minute, weight, count) in ARRIVALS {
        let x = x(minute);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top}V{:.1}\" stroke=\"#999\" stroke-dasharray=\"3 3\"/><text x=\"{:.1}\" y=\"24\" fill=\"#555\">{count} jobs of small, weight {weight}</text>",
            top + height,
            x + 4.0
        );
    }
    for (product, colour) in [(0, "#3b6ea5"), (1, "#c2571a")] {
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            line(product)
        );
    }
    svg.push_str(
        "<text x=\"46\" y=\"258\" fill=\"#3b6ea5\">bulk: 10,000 jobs at minute 0, weight 1</text>\n\
         <text x=\"300\" y=\"258\" fill=\"#c2571a\">small</text>\n\
         <text x=\"686\" y=\"258\" text-anchor=\"end\" fill=\"#555\">seats in use, of 20; 330 minutes; runs of 10 minutes</text>\n\
         </svg>\n",
    );
    svg
}
