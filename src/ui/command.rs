//! Everything that can be asked of the dashboard, in one table: it feeds the dispatcher, the footer, the help and the
//! command palette, so that none of them can say something else than the others.

/// What a key or a line of the palette asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// Into the detail pane, and out of it.
    Detail,
    /// The next tab of the detail pane.
    NextTab,
    /// The tab before.
    PreviousTab,
    /// The logs of the row.
    Logs,
    /// Whether the logs follow what is written.
    Follow,
    /// Back: close, cancel, clear.
    Back,
    /// Filter as you type.
    Filter,
    /// The menu of sort orders.
    Sort,
    /// The same order, the other way round.
    ReverseSort,
    /// Workspaces as a tree, or all containers in one list.
    Flat,
    /// Fold or unfold the workspace.
    Fold,
    /// Fold or unfold all workspaces.
    FoldAll,
    /// Clear the filter and unfold everything.
    ShowAll,
    /// Mark the row.
    Mark,
    /// Mark all visible rows, or none.
    MarkVisible,
    /// Copy the id.
    Copy,
    /// Look at the host now.
    Refresh,
    /// Stop gracefully.
    Stop,
    /// Stop gracefully, then remove.
    Remove,
    /// Remove, killing what runs.
    ForceRemove,
    /// Clean up what nobody needs.
    Reconcile,
    /// Mark for eviction.
    Drain,
    /// Take the mark for eviction away.
    Undrain,
    /// Bring back what is lost.
    Recreate,
    /// Take back what was removed or put aside.
    Undo,
    /// The next colour theme.
    Theme,
    /// Whether the mouse is listened to.
    Mouse,
    /// All commands, to choose from by typing.
    Palette,
    /// All keys.
    Help,
    /// Back to the shell for a while.
    Suspend,
    /// End the program.
    Quit,
}

/// What a command can do to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effectiveness {
    /// Nothing at all.
    Looks,
    /// It changes something that can be changed back.
    Changes,
    /// It can end or remove something.
    Destroys,
}

/// The chapters of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chapter {
    /// Getting around.
    Moving,
    /// Finding things.
    Finding,
    /// Looking closer.
    Looking,
    /// Changing the host.
    Acting,
    /// The program itself.
    Program,
}

impl Chapter {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Moving, Self::Finding, Self::Looking, Self::Acting, Self::Program];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Moving => "Moving",
            Self::Finding => "Finding",
            Self::Looking => "Looking closer",
            Self::Acting => "Acting",
            Self::Program => "Program",
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The command.
    pub command: Command,
    /// Its name in the config file and in the palette.
    pub name: &'static str,
    /// The keys it has unless the config file says otherwise.
    pub keys: &'static [&'static str],
    /// One word for the footer; empty when it has no place there.
    pub short: &'static str,
    /// A sentence for the help and the palette.
    pub long: &'static str,
    /// Where it stands in the help.
    pub chapter: Chapter,
    /// What it can do to the host.
    pub effectiveness: Effectiveness,
}

macro_rules! table {
    ($($command:ident $name:literal [$($key:literal)*] $short:literal $long:literal $chapter:ident $effectiveness:ident;)*) => {
        &[$(Entry {
            command: Command::$command,
            name: $name,
            keys: &[$($key),*],
            short: $short,
            long: $long,
            chapter: Chapter::$chapter,
            effectiveness: Effectiveness::$effectiveness,
        }),*]
    };
}

/// The table.
pub const TABLE: &[Entry] = table! {
    Filter "filter" ["/"] "filter" "Filter as you type: words, or status:stale ws:atlas system:native label:key=value" Finding Looks;
    Mark "mark" ["space"] "mark" "Mark the row; actions then take all marked rows" Finding Looks;
    Stop "stop" ["S"] "stop" "Stop gracefully" Acting Destroys;
    Remove "remove" ["X"] "remove" "Stop gracefully, then remove" Acting Destroys;
    Reconcile "reconcile" ["R"] "reconcile" "Clean up everything that nobody needs" Acting Destroys;
    Drain "drain" ["D"] "drain" "Mark for eviction: it goes when its sessions have ended" Acting Destroys;
    Recreate "recreate" ["C"] "recreate" "Bring back a container that is lost, or start it again" Acting Changes;
    Undo "undo" ["U"] "undo" "Take back what was removed or put aside: this one, or the last time" Acting Changes;
    Undrain "undrain" ["u"] "" "Take the mark for eviction away" Acting Changes;
    ForceRemove "force-remove" ["F"] "" "Remove, killing what runs in it; every check is still made" Acting Destroys;
    Up "up" ["k" "up"] "" "One row up" Moving Looks;
    Down "down" ["j" "down"] "" "One row down" Moving Looks;
    PageUp "page-up" ["pageup" "ctrl-b"] "" "One page up" Moving Looks;
    PageDown "page-down" ["pagedown" "ctrl-f"] "" "One page down" Moving Looks;
    First "first" ["g" "home"] "" "To the first row" Moving Looks;
    Last "last" ["G" "end"] "" "To the last row" Moving Looks;
    Detail "detail" ["enter"] "" "Into the detail pane, and back to the list" Looking Looks;
    NextTab "next-tab" ["tab" "right"] "" "The next tab: Why, Sessions, Logs, Inspect, History" Looking Looks;
    PreviousTab "previous-tab" ["backtab" "left"] "" "The tab before" Looking Looks;
    Logs "logs" ["l"] "" "The logs of the row" Looking Looks;
    Follow "follow" ["w"] "" "Whether the logs follow what is being written" Looking Looks;
    Copy "copy" ["y"] "" "Copy the full id to the clipboard of your terminal" Looking Looks;
    Sort "sort" ["o"] "" "Choose the column to sort by" Finding Looks;
    ReverseSort "reverse-sort" ["O"] "" "Sort the other way round" Finding Looks;
    MarkVisible "mark-visible" ["*"] "" "Mark every visible row, or none" Finding Looks;
    Fold "fold" ["z"] "" "Fold or unfold the workspace" Finding Looks;
    FoldAll "fold-all" ["Z"] "" "Fold or unfold all workspaces" Finding Looks;
    Flat "flat" ["f"] "" "One flat list instead of workspaces" Finding Looks;
    ShowAll "show-all" ["a"] "" "Show all: clear the filter, unfold everything" Finding Looks;
    Back "back" ["esc"] "" "Back: close, cancel, clear the filter, then the marks" Moving Looks;
    Refresh "refresh" ["r"] "" "Look at the host now" Program Looks;
    Theme "theme" ["t"] "" "The next colour theme" Program Looks;
    Mouse "mouse" ["m"] "" "Whether the mouse is listened to; off, your terminal selects text" Program Looks;
    Palette "palette" [":"] "" "All commands, to choose from by typing" Program Looks;
    Suspend "suspend" ["ctrl-z"] "" "Back to the shell; `fg` returns" Program Looks;
    Help "help" ["?"] "help" "All keys" Program Looks;
    Quit "quit" ["q" "ctrl-c"] "quit" "End the program; steps in flight are finished first" Program Looks;
};

impl Command {
    /// Its line of the table.
    pub fn entry(self) -> &'static Entry {
        // Every command is in the table, which a test shows.
        TABLE.iter().find(|entry| entry.command == self).unwrap_or(&TABLE[0])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_has_one_line_one_name_and_a_sentence() {
        let commands: BTreeSet<_> = TABLE.iter().map(|entry| entry.command).collect();
        let names: BTreeSet<_> = TABLE.iter().map(|entry| entry.name).collect();
        assert_eq!((commands.len(), names.len()), (TABLE.len(), TABLE.len()));
        assert_eq!(commands.len(), Command::Quit as usize + 1, "a command is missing from the table");
        for entry in TABLE {
            assert!(!entry.long.is_empty() && !entry.keys.is_empty(), "{}", entry.name);
            assert_eq!(entry.command.entry().name, entry.name);
        }
    }

    #[test]
    fn what_destroys_sits_on_a_capital_and_nothing_else_that_acts_does() {
        for entry in TABLE.iter().filter(|entry| entry.effectiveness == Effectiveness::Destroys) {
            for key in entry.keys {
                assert!(key.len() == 1 && key.chars().all(|c| c.is_ascii_uppercase()), "{}", entry.name);
            }
        }
    }
}
