//! The list: which rows are on screen, in which order, and which of them the cursor and the marks are on. All of it is
//! keyed by what a row is, never by where it stands, so that sort, filter and refresh move nothing from under a finger.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::filter::{Candidate, Filter};
use super::timeline::Timeline;
use super::usage::Usages;
use crate::domain::verdict::{Lost, Subject, Verdict};
use crate::domain::workspace::shared_names;
use crate::domain::{ContainerId, Status, SystemName, Verdicts, WorkspaceRef};

/// What a row is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A workspace; `None` for containers that belong to none.
    Workspace(Option<WorkspaceRef>),
    /// A container.
    Container(ContainerId),
    /// A row of the engine's list whose id could not be read, by its name and what was wrong.
    Unreadable(String),
    /// A session whose container is gone.
    Lost(String),
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub key: Key,
    /// What to show for it.
    pub content: Content,
}

/// Where the contents of a row are.
#[derive(Clone, Debug)]
pub enum Content {
    /// A workspace.
    Workspace(Box<Group>),
    /// A container: its place among the verdicts.
    Container(usize),
    /// A lost session: its place among the lost.
    Lost(usize),
}

/// A workspace in one line.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The worst status of its members.
    pub worst: Option<Status>,
    /// How many containers it has.
    pub containers: usize,
    /// In how many of them processes live.
    pub up: usize,
    /// How many sessions are live in them.
    pub live: usize,
    /// Whether something that could have named more of them could not be read.
    pub unread: bool,
    /// The newest sign of use of any of them.
    pub quiet_since: Option<Timestamp>,
    /// When the oldest of them was made.
    pub oldest: Option<Timestamp>,
    /// Whether its members are hidden.
    pub folded: bool,
    /// Whether another system has a workspace of this name.
    pub shared: bool,
    /// Its members, so that an action on the workspace knows them even while it is folded.
    pub members: Vec<ContainerId>,
}

/// What can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// Workspace, then name.
    Name,
    /// The system.
    System,
    /// The status, the most urgent first.
    Status,
    /// The engine's state.
    State,
    /// Live sessions, then claims.
    Sessions,
    /// How long it has been quiet.
    Idle,
    /// How old it is.
    Age,
    /// Outdated ones first.
    Config,
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// The statuses it has had.
    Past,
    /// The deciding reason.
    Why,
}

impl Column {
    /// All of them, in the order of the screen.
    pub const ALL: [Self; 12] = [
        Self::Name,
        Self::System,
        Self::Status,
        Self::State,
        Self::Sessions,
        Self::Idle,
        Self::Age,
        Self::Config,
        Self::Cpu,
        Self::Memory,
        Self::Past,
        Self::Why,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Name => "WORKSPACE / CONTAINER",
            Self::System => "SYSTEM",
            Self::Status => "STATUS",
            Self::State => "STATE",
            Self::Sessions => "SESSIONS",
            Self::Idle => "IDLE",
            Self::Age => "AGE",
            Self::Config => "CONFIG",
            Self::Cpu => "CPU",
            Self::Memory => "MEMORY",
            Self::Past => "PAST",
            Self::Why => "WHY",
        }
    }
}

/// The list and what the operator did to it.
#[derive(Clone, Debug)]
pub struct List {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Containers the operator marked.
    pub marks: HashSet<ContainerId>,
    /// Workspaces whose members are hidden.
    pub folded: HashSet<Option<WorkspaceRef>>,
    /// Whether there are no workspace rows.
    pub flat: bool,
    /// What it is sorted by.
    pub sort: Column,
    /// Whether the other way round.
    pub reversed: bool,
    /// What is shown at all.
    pub filter: Filter,
    /// How many rows there would be without the filter, workspaces not counted.
    pub total: usize,
    /// The first row on screen.
    pub offset: usize,
    cursor: usize,
    selected: Option<Key>,
}

impl Default for List {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            marks: HashSet::new(),
            folded: HashSet::new(),
            flat: false,
            sort: Column::Name,
            reversed: false,
            filter: Filter::default(),
            total: 0,
            offset: 0,
            cursor: 0,
            selected: None,
        }
    }
}

/// How urgent a status is, the most urgent first: what may need a person comes before what is in order.
pub(super) fn urgency(status: Status) -> u8 {
    match status {
        Status::Lost => 0,
        Status::Unknown => 1,
        Status::Orphaned => 2,
        Status::Stale => 3,
        Status::Draining => 4,
        Status::Active => 5,
        Status::Idle => 6,
    }
}

/// What is known of containers over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traces<'a> {
    /// What they use.
    pub(super) usages: &'a Usages,
    /// The statuses they have had.
    pub(super) timelines: &'a HashMap<ContainerId, Timeline>,
}

/// What a row is ordered by. What is not known comes last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number(i64),
    Text(String),
    Nothing,
}

/// A workspace and its system.
type Place<'a> = Option<(&'a str, Option<&'a SystemName>)>;

struct Member<'a> {
    place: Place<'a>,
    name: &'a str,
    content: Content,
    rank: Rank,
}

impl List {
    /// Lays the rows out anew. The cursor stays on what it was on; if that is gone, on what took its place.
    pub(super) fn arrange(&mut self, verdicts: &Verdicts, traces: Traces<'_>) {
        self.total = verdicts.containers.len() + verdicts.lost.len();
        let mut members = self.members(verdicts, traces);
        if self.reversed {
            members.sort_by(|a, b| {
                // What is not known stays last, whichever way it goes.
                let known = (a.rank == Rank::Nothing).cmp(&(b.rank == Rank::Nothing));
                known.then_with(|| Reverse(&a.rank).cmp(&Reverse(&b.rank))).then_with(|| a.name.cmp(b.name))
            });
        } else {
            members.sort_by(|a, b| (&a.rank, a.name).cmp(&(&b.rank, b.name)));
        }
        self.rows = if self.flat {
            members.into_iter().map(|member| row(verdicts, member.content)).collect()
        } else {
            self.tree(verdicts, members)
        };
        self.follow();
    }

    fn members<'a>(&self, verdicts: &'a Verdicts, traces: Traces<'_>) -> Vec<Member<'a>> {
        let mut matcher = Filter::matcher();
        let mut members = Vec::with_capacity(self.total);
        let everything = self.filter.is_empty();
        for (index, verdict) in verdicts.containers.iter().enumerate() {
            if everything || self.filter.passes(&Candidate::from(verdict), &mut matcher) {
                members.push(Member {
                    place: verdict.workspace.as_deref().map(|name| (name, verdict.system.as_ref())),
                    name: verdict.subject.name(),
                    content: Content::Container(index),
                    rank: rank(self.sort, verdict, traces),
                });
            }
        }
        for (index, lost) in verdicts.lost.iter().enumerate() {
            if everything || self.filter.passes(&Candidate::from(lost), &mut matcher) {
                members.push(Member {
                    place: lost.workspace.as_deref().map(|name| (name, Some(&lost.system))),
                    name: &lost.container,
                    content: Content::Lost(index),
                    rank: rank_of_lost(self.sort, lost),
                });
            }
        }
        members
    }

    /// Workspaces stand in the order of their first member.
    fn tree(&self, verdicts: &Verdicts, members: Vec<Member<'_>>) -> Vec<Row> {
        let shared = shared_names(verdicts);
        let mut order: Vec<Place<'_>> = Vec::new();
        let mut groups: HashMap<Place<'_>, Vec<Content>> = HashMap::new();
        for member in members {
            groups
                .entry(member.place)
                .or_insert_with(|| {
                    order.push(member.place);
                    Vec::new()
                })
                .push(member.content);
        }
        let mut rows = Vec::new();
        for place in order {
            let contents = groups.remove(&place).unwrap_or_default();
            let name = place.map(|(name, system)| WorkspaceRef::of(system, name));
            let shared = place.is_some_and(|(name, _)| shared.contains(name));
            let mut group = Group { folded: self.folded.contains(&name), shared, ..Group::default() };
            for content in &contents {
                match content {
                    Content::Container(index) => group.add(&verdicts.containers[*index]),
                    Content::Lost(_) => group.worsen(Status::Lost),
                    Content::Workspace(_) => {}
                }
            }
            let folded = group.folded;
            rows.push(Row { key: Key::Workspace(name), content: Content::Workspace(Box::new(group)) });
            if !folded {
                rows.extend(contents.into_iter().map(|content| row(verdicts, content)));
            }
        }
        rows
    }

    /// Puts the cursor where its row went.
    fn follow(&mut self) {
        let found = self.selected.as_ref().and_then(|key| self.rows.iter().position(|row| row.key == *key));
        self.cursor = found.unwrap_or(self.cursor).min(self.rows.len().saturating_sub(1));
        self.selected = self.rows.get(self.cursor).map(|row| row.key.clone());
    }

    /// Where the cursor is.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The row under the cursor.
    pub fn selected(&self) -> Option<&Row> {
        self.rows.get(self.cursor)
    }

    /// Puts the cursor on a row.
    pub fn select(&mut self, index: usize) {
        self.cursor = index.min(self.rows.len().saturating_sub(1));
        self.selected = self.rows.get(self.cursor).map(|row| row.key.clone());
    }

    /// Moves the cursor by so many rows, down or up, no further than the ends.
    pub fn move_by(&mut self, rows: isize) {
        self.select(self.cursor.saturating_add_signed(rows));
    }

    /// Scrolls so that the cursor is among the `height` rows on screen.
    pub fn scroll_into_view(&mut self, height: usize) {
        let height = height.max(1);
        let last = self.rows.len().saturating_sub(height);
        self.offset = self.offset.min(self.cursor).max((self.cursor + 1).saturating_sub(height)).min(last);
    }

    /// The workspace the cursor is in.
    pub fn workspace(&self) -> Option<&Option<WorkspaceRef>> {
        let before = self.rows.get(..=self.cursor)?.iter().rev();
        before.into_iter().find_map(|row| match &row.key {
            Key::Workspace(name) => Some(name),
            _ => None,
        })
    }

    /// What an action is about: the marked containers, else the one under the cursor, else those of its workspace.
    pub fn targets(&self) -> HashSet<ContainerId> {
        if !self.marks.is_empty() {
            return self.marks.clone();
        }
        match self.selected() {
            Some(Row { key: Key::Container(id), .. }) => HashSet::from([id.clone()]),
            Some(Row { content: Content::Workspace(group), .. }) => group.members.iter().cloned().collect(),
            _ => HashSet::new(),
        }
    }

    /// Marks the row, or takes its mark away; on a workspace all of its visible containers.
    pub fn toggle_mark(&mut self) {
        match self.selected().map(|row| (&row.key, &row.content)) {
            Some((Key::Container(id), _)) => {
                let id = id.clone();
                if !self.marks.remove(&id) {
                    self.marks.insert(id);
                }
            }
            Some((_, Content::Workspace(group))) => {
                let members = group.members.clone();
                self.toggle_all(&members);
            }
            _ => {}
        }
    }

    /// Marks every container that passes the filter, or none if all of them are marked.
    pub fn toggle_visible(&mut self) {
        let visible: Vec<ContainerId> = self
            .rows
            .iter()
            .flat_map(|row| match (&row.key, &row.content) {
                (Key::Container(id), _) => vec![id.clone()],
                (_, Content::Workspace(group)) if group.folded => group.members.clone(),
                _ => Vec::new(),
            })
            .collect();
        self.toggle_all(&visible);
    }

    fn toggle_all(&mut self, ids: &[ContainerId]) {
        if ids.iter().all(|id| self.marks.contains(id)) {
            for id in ids {
                self.marks.remove(id);
            }
        } else {
            self.marks.extend(ids.iter().cloned());
        }
    }

    /// Forgets marks on containers that are gone.
    pub fn keep_marks_of(&mut self, verdicts: &Verdicts) {
        if self.marks.is_empty() {
            return;
        }
        let present: HashSet<&ContainerId> =
            verdicts.containers.iter().filter_map(|verdict| verdict.subject.id()).collect();
        self.marks.retain(|id| present.contains(id));
    }
}

impl Group {
    fn worsen(&mut self, status: Status) {
        if self.worst.is_none_or(|worst| urgency(status) < urgency(worst)) {
            self.worst = Some(status);
        }
    }

    fn add(&mut self, verdict: &Verdict) {
        self.worsen(verdict.status);
        self.containers += 1;
        self.live += verdict.claims.live;
        self.unread |= verdict.sessions_unread();
        self.quiet_since = self.quiet_since.max(verdict.quiet_since);
        self.members.extend(verdict.subject.id().cloned());
        if let Some(container) = verdict.subject.container() {
            self.up += usize::from(container.state.holds_processes());
            self.oldest =
                Some(self.oldest.map_or(container.created_at, |oldest| oldest.min(container.created_at)));
        }
    }
}

fn row(verdicts: &Verdicts, content: Content) -> Row {
    let key = match &content {
        Content::Container(index) => match &verdicts.containers[*index].subject {
            Subject::Container(container) => Key::Container(container.id.clone()),
            Subject::Row(row) => match &row.id {
                Some(id) => Key::Container(id.clone()),
                None => Key::Unreadable(format!("{:?} {}", row.name, row.problem)),
            },
        },
        Content::Lost(index) => Key::Lost(verdicts.lost[*index].session.clone()),
        Content::Workspace(_) => Key::Workspace(None),
    };
    Row { key, content }
}

fn rank(column: Column, verdict: &Verdict, traces: Traces<'_>) -> Rank {
    let container = verdict.subject.container();
    let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let usage = || verdict.subject.id().and_then(|id| traces.usages.of(id));
    let known = |rank: Option<Rank>| rank.unwrap_or(Rank::Nothing);
    match column {
        Column::Name => Rank::Text(verdict.workspace.clone().unwrap_or_else(|| "\u{10FFFF}".to_owned())),
        Column::System => known(verdict.system.as_ref().map(|system| Rank::Text(system.to_string()))),
        Column::Status => Rank::Number(i64::from(urgency(verdict.status))),
        Column::State => known(container.map(|container| Rank::Text(container.state.to_string()))),
        Column::Sessions => {
            Rank::Number(-(number(verdict.claims.live) * 1_000_000 + number(verdict.claims.total)))
        }
        Column::Idle => known(verdict.quiet_since.map(|at| Rank::Number(at.as_second()))),
        Column::Age => known(container.map(|container| Rank::Number(container.created_at.as_second()))),
        Column::Config => Rank::Number(i64::from(!verdict.outdated)),
        Column::Cpu => {
            known(usage().and_then(super::usage::Trace::cpu_permille).map(|value| Rank::Number(-value)))
        }
        Column::Memory => known(
            usage()
                .and_then(|usage| i64::try_from(usage.memory_bytes()).ok())
                .map(|value| Rank::Number(-value)),
        ),
        Column::Past => {
            let past = verdict.subject.id().and_then(|id| traces.timelines.get(id));
            // What changed most comes first.
            Rank::Number(-number(past.map_or(0, Timeline::len)))
        }
        Column::Why => known(verdict.evidence.first().map(|reason| Rank::Text(reason.to_string()))),
    }
}

fn rank_of_lost(column: Column, lost: &Lost) -> Rank {
    match column {
        Column::Name => Rank::Text(lost.workspace.clone().unwrap_or_else(|| "\u{10FFFF}".to_owned())),
        Column::System => Rank::Text(lost.system.to_string()),
        Column::Status => Rank::Number(i64::from(urgency(Status::Lost))),
        Column::Why => lost.evidence.first().map_or(Rank::Nothing, |reason| Rank::Text(reason.to_string())),
        _ => Rank::Nothing,
    }
}
