//! What lies over a page: help, menus, questions, input lines.

use super::LineEdit;
use crate::message::{Act, Target};

/// The overlay that has the keys.
#[derive(Debug, Clone)]
pub(crate) enum Overlay {
    Help {
        scroll: usize,
    },
    Menu(Menu),
    Dialog(Dialog),
    Input(Input),
    /// Texts about targets whose action failed.
    Outcomes {
        title: String,
        lines: Vec<String>,
        scroll: usize,
    },
}

/// Actions to choose from.
#[derive(Debug, Clone)]
pub(crate) struct Menu {
    pub(crate) title: String,
    pub(crate) items: Vec<MenuItem>,
    pub(crate) selected: usize,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Clone)]
pub(crate) struct MenuItem {
    pub(crate) key: char,
    pub(crate) label: String,
    pub(crate) choice: MenuChoice,
}

#[derive(Debug, Clone)]
pub(crate) enum MenuChoice {
    Act(Act),
    /// A further menu.
    Priorities,
    Pins,
    Modes,
    /// Redrive all dead letters with the reason of the selected one.
    RedriveReason,
}

/// Asks before an action, with a text where it takes one.
#[derive(Debug, Clone)]
pub(crate) struct Dialog {
    pub(crate) act: Act,
    pub(crate) targets: Vec<Target>,
    /// What happens, in words.
    pub(crate) consequence: String,
    /// The question of the agent, for an answer.
    pub(crate) quote: Option<String>,
    pub(crate) field: Field,
    pub(crate) line: LineEdit,
    /// Why it cannot be confirmed yet.
    pub(crate) problem: Option<String>,
}

/// The text of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    None,
    Optional(&'static str),
    Required(&'static str),
}

/// A line at the bottom.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) kind: InputKind,
    pub(crate) line: LineEdit,
    /// The filter as it was, for Esc.
    pub(crate) before: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputKind {
    Filter,
    Command,
    Search,
}
